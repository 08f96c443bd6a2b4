// From an opinion to a sentence.

export const UNKNOWN = "I do not know";

// threshold: null stands for the model's own rule, which the service has applied already.
export function accepts(opinion, threshold) {
  if (threshold === null) return opinion.accepted;
  return opinion.uncertainty < threshold;
}

export function itIs(name) {
  if (!/^([0-9]+|[A-Za-z])$/.test(name)) return `It is “${name}”`;
  const vowel = /^(8\d*|11|18|[AEFHILMNORSX])$/i.test(name);
  return `It is ${vowel ? "an" : "a"} ${name}`;
}

// The conformal set of an input in words; null for a model without sets.
export function itMayBe(set) {
  if (set === null) return null;
  if (set.length === 0) return "It is unlike every class.";
  return `It may be: ${set.join(", ")}.`;
}

// The p-value of an input in words; null for a model without trust.
export function howUsual(value) {
  if (value === null) return null;
  return `Of known inputs, ${percent(value)} lie as far from the training data.`;
}

export function percent(value) {
  if (value > 0 && value < 0.01) return "under 1%";
  if (value < 1 && value > 0.99) return "over 99%";
  return `${Math.round(100 * value)}%`;
}
