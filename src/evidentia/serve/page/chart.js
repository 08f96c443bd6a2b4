// What a network says over the angle, 0 to 180 degrees, as in the first figure of the paper.

import { draw } from "./svg.js";

const [WIDTH, HEIGHT] = [340, 210];
const [LEFT, RIGHT, TOP, BOTTOM] = [30, 332, 12, 182];
const MOST_LINES = 5;
const WIDEST_GAP = 15; // degrees; points further apart are not joined

const x = (angle) => LEFT + ((RIGHT - LEFT) * angle) / 180;
const y = (value) => BOTTOM - (BOTTOM - TOP) * Math.min(Math.max(value, 0), 1);

export class Chart {
  constructor(svg) {
    this.svg = svg;
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  }

  // points: [{angle, probabilities, uncertainty?}]; uncertainty is drawn where it is a mass of its own.
  show({ points, names, angle, threshold = null }) {
    const ordered = [...points].sort((a, b) => a.angle - b.angle);
    this.svg.replaceChildren();
    this.axes();
    if (threshold !== null) {
      draw(this.svg, "line", { class: "threshold", x1: LEFT, x2: RIGHT, y1: y(threshold), y2: y(threshold) });
    }
    draw(this.svg, "line", { class: "now", x1: x(angle), x2: x(angle), y1: TOP, y2: BOTTOM });
    const doubted = ordered.filter((point) => point.uncertainty !== undefined);
    this.line(doubted, (point) => point.uncertainty, "doubt");
    const lines = winners(ordered);
    lines.forEach((index, order) => this.line(ordered, (point) => point.probabilities[index], `line-${order}`));
    lines.forEach((index, order) => this.name(ordered, index, names[index], `line-${order}`));
    this.svg.setAttribute("aria-label", described(ordered, names));
  }

  axes() {
    for (const value of [0, 0.5, 1]) {
      draw(this.svg, "line", { class: "grid", x1: LEFT, x2: RIGHT, y1: y(value), y2: y(value) });
      draw(this.svg, "text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, String(value));
    }
    for (const angle of [0, 45, 90, 135, 180]) {
      const anchor = angle === 180 ? "end" : "middle";
      draw(this.svg, "text", { x: x(angle) + (angle === 180 ? 6 : 0), y: BOTTOM + 18, "text-anchor": anchor }, `${angle}°`);
    }
  }

  line(points, value, kind) {
    const runs = [];
    points.forEach((point, index) => {
      const apart = index === 0 || point.angle - points[index - 1].angle > WIDEST_GAP;
      if (apart) runs.push([]);
      runs.at(-1).push(`${x(point.angle).toFixed(1)},${y(value(point)).toFixed(1)}`);
    });
    for (const run of runs) {
      if (run.length > 1) draw(this.svg, "polyline", { class: kind, points: run.join(" ") });
      for (const place of run) {
        const [cx, cy] = place.split(",");
        draw(this.svg, "circle", { class: kind, cx, cy, r: kind === "doubt" ? 2.6 : 1.8 });
      }
    }
  }

  // The name of a class where its line is highest.
  name(points, index, name, kind) {
    const best = points.reduce((a, b) => (b.probabilities[index] > a.probabilities[index] ? b : a));
    const value = best.probabilities[index];
    const above = y(value) - 7;
    const short = name.length > 9 ? `${name.slice(0, 8)}…` : name;
    const place = { x: Math.min(Math.max(x(best.angle), LEFT + 8), RIGHT - 8), y: above < TOP + 6 ? y(value) + 17 : above };
    draw(this.svg, "text", { class: `name ${kind}`, "text-anchor": "middle", ...place }, short);
  }
}

// The classes that are strongest at some angle, those with the highest peaks, in order of class.
function winners(points) {
  const peaks = new Map();
  for (const { probabilities } of points) {
    const best = probabilities.indexOf(Math.max(...probabilities));
    peaks.set(best, Math.max(peaks.get(best) ?? 0, probabilities[best]));
  }
  const highest = [...peaks].sort((a, b) => b[1] - a[1]).slice(0, MOST_LINES);
  return highest.map(([index]) => index).sort((a, b) => a - b);
}

function described(points, names) {
  if (!points.length) return "Nothing yet: turn the picture.";
  const part = ({ angle, probabilities, uncertainty }) => {
    const best = Math.max(...probabilities);
    const doubt = uncertainty === undefined ? "" : `, uncertainty ${uncertainty.toFixed(2)}`;
    return `${angle}°: ${names[probabilities.indexOf(best)]} ${best.toFixed(2)}${doubt}`;
  };
  const every = Math.ceil(points.length / 10);
  return points.filter((_, index) => index % every === 0).map(part).join("; ");
}
