// The page: one picture, a network of each kind, one threshold.

import * as api from "./api.js";
import { EvidentialCard, SoftmaxCard } from "./answers.js";
import { opinionsAt } from "./asking.js";
import { Chart, Colours } from "./chart.js";
import { Latest } from "./latest.js";
import { Pad } from "./pad.js";
import { paint, turn } from "./picture.js";
import { Samples } from "./samples.js";
import { offer, remark, sorted } from "./served.js";
import { fitted, fromFile, fromInk } from "./source.js";
import { Triangle } from "./triangle.js";
import { Trouble } from "./trouble.js";
import { ANGLES, Turning } from "./turn.js";

const byId = (id) => document.getElementById(id);
const PAUSE = 40; // milliseconds in which strokes and slider steps are gathered
const STRIP = [0, 20, 40, 60, 80, 100, 120, 140, 160, 180];

class Page {
  constructor() {
    this.evidential = this.softmax = this.source = this.shown = null;
    this.threshold = null; // null: the model's own rule
    this.points = new Map(); // angle -> {name of a model: opinion}
    this.colours = new Colours();
    this.latest = new Latest(() => this.look(), PAUSE);
    this.cards = { evidential: new EvidentialCard(), softmax: new SoftmaxCard() };
    this.charts = { evidential: new Chart(byId("opinion-chart")), softmax: new Chart(byId("softmax-chart")) };
    this.triangle = new Triangle(byId("density"), byId("corners"));
    this.pad = new Pad(byId("pad"), () => this.drawn());
    const groups = { digits: byId("digits"), letters: byId("letters") };
    this.samples = new Samples(groups, (sample) => this.chosen(sample));
    this.trouble = new Trouble(() => this.again());
    this.turning = new Turning(byId("turn"), (angle) => this.goTo(angle));
    this.listen();
  }

  listen() {
    byId("clear").addEventListener("click", () => this.clear());
    byId("upload").addEventListener("change", (event) => this.upload(event.target));
    byId("swap").addEventListener("change", () => this.take(this.source));
    byId("angle").addEventListener("input", () => {
      this.turning.stop();
      this.turned();
    });
    byId("threshold").addEventListener("input", () => this.setThreshold(Number(byId("threshold").value)));
    byId("own").addEventListener("click", () => this.setThreshold(null));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.render());
  }

  async start() {
    await this.trouble.attempt(async () => {
      if (!this.samples.samples.length) this.samples.fill(await api.samples());
      this.offer(sorted(await api.models()));
      this.chosen(this.samples.named("1"));
    });
  }

  offer(served) {
    byId("remark").textContent = remark(served);
    byId("remark").hidden = !byId("remark").textContent;
    for (const kind of ["evidential", "softmax"]) {
      offer(byId(`${kind}-choice`), served[kind], (model) => this.choose(kind, model));
      for (const part of document.querySelectorAll(`.for-${kind}`)) part.hidden = !served[kind].length;
      this[kind] = served[kind][0] ?? null;
      if (this[kind]) byId(`${kind}-about`).textContent = this[kind].about;
    }
    this.setThreshold(null);
  }

  choose(kind, model) {
    this[kind] = model;
    byId(`${kind}-about`).textContent = model.about;
    if (kind === "evidential") this.samples.opinions = null;
    this.take(this.source);
    if (kind === "evidential") this.setThreshold(null);
  }

  // Sources -------------------------------------------------------------------------------------

  drawn() {
    if (!this.source?.drawn) this.begin();
    this.take(fromInk(this.pad.ink()));
  }

  chosen(sample) {
    this.pad.clear();
    this.begin(sample);
    this.take(sample.source);
  }

  async upload(input) {
    const [file] = input.files;
    input.value = ""; // the same file can be chosen again
    if (!file) return;
    try {
      const source = await fromFile(file);
      this.pad.clear();
      this.begin();
      byId("swap-label").hidden = false;
      this.take(source);
    } catch {
      this.trouble.say(`${file.name} is not a picture that this browser can read.`, false);
    }
  }

  clear() {
    this.pad.clear();
    this.begin();
    this.take(null);
  }

  // A new picture starts upright and as it is.
  begin(sample = null) {
    this.samples.press(sample);
    byId("angle").value = 0;
    byId("swap").checked = false;
    byId("swap-label").hidden = true;
  }

  // Another picture, or another way to look at it: what was seen before goes.
  take(source) {
    this.turning.stop();
    this.source = source;
    this.points = new Map();
    this.colours = new Colours();
    if (!source) this.shown = null; // else the last answer stands until the next one is there
    this.strip();
    this.turned();
  }

  turned() {
    byId("degrees").textContent = `${this.angle}°`;
    if (this.source && this.main) paint(byId("seen"), this.seen(this.main));
    byId("seen").hidden = !this.source;
    this.render();
    return this.source && this.main ? this.latest.ask() : null;
  }

  get angle() {
    return Number(byId("angle").value);
  }

  get main() {
    return this.evidential ?? this.softmax;
  }

  seen(model, angle = this.angle) {
    const swap = Boolean(this.source.uploaded) && byId("swap").checked;
    return turn(fitted(this.source, model.input_shape, swap), angle);
  }

  // Asking --------------------------------------------------------------------------------------

  async look() {
    const { points, angle } = this;
    if (!this.source || !this.main) return;
    await this.trouble.attempt(async () => {
      const [answer] = await this.opinions([angle]);
      if (points !== this.points) return; // another picture or another model came between
      points.set(angle, answer);
      this.shown = answer;
      if (this.evidential && !this.samples.opinions) await this.judgeSamples();
    });
    this.render();
  }

  opinions(angles) {
    const models = [this.evidential, this.softmax].filter(Boolean);
    return opinionsAt(angles, models, (model, angle) => this.seen(model, angle));
  }

  async judgeSamples() {
    const model = this.evidential;
    const answer = await api.opinions(this.samples.inputs(model.input_shape), [model.name]);
    if (model === this.evidential) this.samples.opinions = answer[model.name];
  }

  // Whether the picture was seen at this angle. Where motion is not wanted, all angles are asked for at once.
  async goTo(angle) {
    if (!this.source) return false;
    const { points } = this;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      await this.turnAtOnce();
      return false;
    }
    byId("angle").value = angle;
    await this.turned();
    return points === this.points && points.has(angle);
  }

  async turnAtOnce() {
    const { points } = this;
    await this.trouble.attempt(async () => {
      const answers = await this.opinions(ANGLES);
      answers.forEach((answer, index) => points.set(ANGLES[index], answer));
    });
    this.render();
    this.turning.stop();
  }

  again() {
    return this.main ? this.latest.ask() : this.start();
  }

  // Showing -------------------------------------------------------------------------------------

  setThreshold(value) {
    this.threshold = value;
    const own = value === null;
    if (own) byId("threshold").value = this.mark ?? 0.5;
    const number = this.mark?.toFixed(2);
    byId("threshold-value").textContent = !own ? number : number ? `${number} (its own)` : "its own rule";
    byId("own").disabled = own;
    this.render();
  }

  // The threshold as a number from 0 to 1; null where the model's own rule is not one of uncertainty.
  get mark() {
    return this.threshold ?? (this.evidential ? this.evidential.threshold : 0.5);
  }

  render() {
    byId("sample-summary").textContent = this.evidential ? this.samples.judge(this.threshold) : "";
    for (const kind of ["evidential", "softmax"]) {
      if (this[kind]) this.renderCard(kind, this[kind]);
    }
  }

  renderCard(kind, { name, classes, prior }) {
    const opinion = this.shown?.[name];
    const card = this.cards[kind];
    if (!opinion) card.clear(classes, this.source, this.mark);
    else if (kind === "evidential") card.show(opinion, classes, this.threshold, this.mark);
    else card.show(opinion, classes, this.mark);
    if (kind === "evidential") this.renderTriangle(opinion, classes, prior);
    const points = [...this.points].map(([angle, answer]) => point(angle, answer[name], kind === "evidential"));
    const threshold = kind === "evidential" ? this.mark : null;
    this.charts[kind].show({ points, names: classes, angle: this.angle, threshold, colours: this.colours });
  }

  renderTriangle(opinion, classes, prior) {
    byId("triangle").hidden = classes.length < 3;
    if (!opinion || classes.length < 3) return this.triangle.clear();
    const corners = this.triangle.show(opinion, classes, prior);
    const part = ({ name, alpha }) => `${name}: ${alpha < 100 ? alpha.toFixed(1) : Math.round(alpha)}`;
    byId("alphas").textContent = `alpha ${corners.map(part).join(", ")}`;
  }

  strip() {
    const pictures = this.source && this.main ? STRIP.map((angle) => this.seen(this.main, angle)) : [];
    for (const strip of document.querySelectorAll(".strip")) strip.replaceChildren(...pictures.map(thumbnail));
  }
}

function thumbnail(picture) {
  const canvas = document.createElement("canvas");
  paint(canvas, picture);
  return canvas;
}

function point(angle, { probabilities, uncertainty }, evidential) {
  return evidential ? { angle, probabilities, uncertainty } : { angle, probabilities };
}

new Page().start();
