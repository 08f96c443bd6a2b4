// What a network says over the angle, 0 to 180 degrees, as in the first figure of the paper.

import { draw } from "./svg.js";

const [WIDTH, HEIGHT] = [340, 208];
const [LEFT, RIGHT, TOP, BOTTOM] = [30, 320, 24, 186]; // the strip below has the same left and right
const MOST_LINES = 5;
const WIDEST_GAP = 15; // degrees; points further apart are not joined

const hue = (slot) => (slot < 6 ? `line-${slot}` : `line-${slot - 6} dashed`);
const x = (angle) => LEFT + ((RIGHT - LEFT) * angle) / 180;
const y = (value) => BOTTOM - (BOTTOM - TOP) * Math.min(Math.max(value, 0), 1);

const MOST_COLOURS = 12; // six hues, then the same dashed

// One class, one colour, in both charts: given out in the order in which classes lead.
export class Colours {
  constructor() {
    this.order = new Map();
  }

  of(name) {
    if (!this.order.has(name)) this.order.set(name, this.order.size % MOST_COLOURS);
    return hue(this.order.get(name));
  }
}

export class Chart {
  constructor(svg) {
    this.svg = svg;
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  }

  // points: [{angle, probabilities, uncertainty?}]; uncertainty is drawn where it is a mass of its own.
  show({ points, names, angle, threshold, colours }) {
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
    for (const index of lines) this.line(ordered, (point) => point.probabilities[index], colours.of(names[index]));
    for (const index of lines) this.name(ordered, index, names[index], colours.of(names[index]));
    if (ordered.length < 2) this.hint();
    this.svg.setAttribute("aria-label", described(ordered, names));
  }

  axes() {
    for (const value of [0, 0.5, 1]) {
      draw(this.svg, "line", { class: "grid", x1: LEFT, x2: RIGHT, y1: y(value), y2: y(value) });
      draw(this.svg, "text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end" }, String(value));
    }
    for (const angle of [0, 45, 90, 135, 180]) {
      draw(this.svg, "text", { x: x(angle), y: BOTTOM + 18, "text-anchor": "middle" }, `${angle}°`);
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
      const [cx, cy] = run.at(-1).split(",");
      if (run.length === 1) draw(this.svg, "circle", { class: kind, cx, cy, r: 3 });
    }
  }

  // The name of a class where its line is highest.
  name(points, index, name, kind) {
    const best = points.reduce((a, b) => (b.probabilities[index] > a.probabilities[index] ? b : a));
    const value = best.probabilities[index];
    const short = name.length > 9 ? `${name.slice(0, 8)}…` : name;
    const place = { x: Math.min(Math.max(x(best.angle), LEFT + 6), RIGHT - 6), y: y(value) - 7 };
    draw(this.svg, "text", { class: `name ${kind}`, "text-anchor": "middle", ...place }, short);
  }

  hint() {
    const place = { x: x(90), y: y(0.25), "text-anchor": "middle" };
    draw(this.svg, "text", place, "Turn the picture to fill this");
  }
}

// The classes that are strongest at some angle, those with the highest peaks, in the order of angles.
function winners(points) {
  const peaks = new Map();
  for (const { probabilities } of points) {
    const best = probabilities.indexOf(Math.max(...probabilities));
    peaks.set(best, Math.max(peaks.get(best) ?? 0, probabilities[best]));
  }
  const highest = [...peaks].sort((a, b) => b[1] - a[1]).slice(0, MOST_LINES);
  return [...peaks.keys()].filter((index) => highest.some(([high]) => high === index));
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
