// The Dirichlet distribution behind an opinion.

// S = K prior / u, alpha = p S. A mass of 0 can only be rounding: strength is finite, and no alpha is 0.
export function alphaOf({ probabilities, uncertainty }, prior) {
  const strength = (probabilities.length * prior) / Math.max(uncertainty, 1e-9);
  return probabilities.map((probability) => Math.max(probability * strength, 1e-6));
}

// The classes with the largest alpha, the first of equals first.
export function strongest(alpha, count) {
  const order = alpha.map((_, index) => index).sort((a, b) => alpha[b] - alpha[a] || a - b);
  return order.slice(0, count);
}

// ln of the density at a point with these logarithms of its coordinates: a function, for it is asked often.
export function logDensity(alpha) {
  const total = alpha.reduce((sum, one) => sum + one, 0);
  const scale = alpha.reduce((sum, one) => sum - logGamma(one), logGamma(total));
  return (logs) => alpha.reduce((sum, one, i) => sum + (one - 1) * logs[i], scale);
}

// Stirling's series, after the argument is raised to where it is exact to 1e-12.
function logGamma(value) {
  let [z, shift] = [value, 0];
  while (z < 10) shift -= Math.log(z++);
  const r = 1 / (z * z);
  const series = (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r / 1680))) / z;
  return shift + (z - 0.5) * Math.log(z) - z + 0.5 * Math.log(2 * Math.PI) + series;
}
