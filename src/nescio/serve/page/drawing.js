// A picture of 28 x 28 pixels: drawn, a sample, or uploaded; it can be turned, and the answers while it turns are drawn.

import * as api from "./api.js";
import { opinionsOf } from "./asking.js";
import { Chart, Colours } from "./chart.js";
import { knowsDigits } from "./groups.js";
import { Pad } from "./pad.js";
import { paint, turn } from "./picture.js";
import { Samples } from "./samples.js";
import { fitted, fromFile, fromInk } from "./source.js";
import { ANGLES, Turning } from "./turn.js";

const byId = (id) => document.getElementById(id);
const STRIP = [0, 20, 40, 60, 80, 100, 120, 140, 160, 180];

export class Drawing {
  // onChange: asks for an answer, and gives a promise of its end. trouble: shows what is wrong.
  constructor(onChange, trouble) {
    this.element = byId("drawing");
    this.onChange = onChange;
    this.trouble = trouble;
    this.models = [];
    this.opened = null; // what it was opened for, while it is
    this.charts = [];
    this.source = null;
    this.points = new Map(); // angle -> {name of a model: opinion}
    this.colours = new Colours();
    this.pad = new Pad(byId("pad"), () => this.drawn());
    const groups = { digits: byId("digits"), letters: byId("letters") };
    this.samples = new Samples(groups, (sample) => this.chosen(sample));
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
  }

  async open(models) {
    this.models = models;
    this.charts = models.map((model) => new TurnedChart(model));
    byId("charts").replaceChildren(...this.charts.map(({ element }) => element));
    this.source = null;
    this.take(null);
    const [main] = models;
    // The samples are of what the model knows; letters are what one of digits does not know.
    const isKnown = ({ name }) => knowsDigits(main) || main.classes.includes(name);
    const opened = (this.opened = {});
    let pictures;
    try {
      pictures = await api.samples();
    } catch (error) {
      if (opened !== this.opened) return;
      throw error;
    }
    if (opened !== this.opened) return; // other models were chosen between
    this.samples.fill(pictures, isKnown);
    byId("samples").hidden = !this.samples.samples.length;
    const first = this.samples.named("1") ?? this.samples.samples[0];
    if (first) this.chosen(first);
  }

  close() {
    this.opened = null;
    this.turning.stop();
    byId("samples").hidden = true;
  }

  get nothing() {
    if (this.source) return ["No answer yet", ""];
    const others = this.samples.samples.length ? "Draw, choose a sample or upload a picture." : "Draw or upload a picture.";
    return ["Nothing to look at yet", others];
  }

  get isReady() {
    return this.source !== null;
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
    this.strip();
    this.turned();
  }

  turned() {
    byId("degrees").textContent = `${this.angle}°`;
    if (this.source) paint(byId("seen"), this.seen());
    byId("seen").hidden = !this.source;
    return this.onChange();
  }

  get angle() {
    return Number(byId("angle").value);
  }

  seen(angle = this.angle) {
    const swap = Boolean(this.source.uploaded) && byId("swap").checked;
    return turn(fitted(this.source, this.models[0].input_shape, swap), angle);
  }

  strip() {
    const pictures = this.source ? STRIP.map((angle) => this.seen(angle)) : [];
    for (const { element } of this.charts) element.querySelector(".strip").replaceChildren(...pictures.map(thumbnail));
  }

  // Asking --------------------------------------------------------------------------------------

  // null where another picture came between: the answer is of nothing that is shown.
  async ask(names) {
    const { points, angle } = this;
    const [answer] = await opinionsOf([this.seen()], names);
    if (points !== this.points) return null;
    points.set(angle, answer);
    return answer;
  }

  // With the first answer the samples are judged too. A service that takes fewer inputs at once refuses them:
  // they are shown without a judgement.
  async answered() {
    const main = this.evidential;
    if (!this.isReady || !main || this.samples.opinions || !this.samples.samples.length) return;
    const { samples } = this.samples;
    let judged = [];
    try {
      judged = (await api.opinions(this.samples.inputs(main.input_shape), [main.name]))[main.name];
    } catch (error) {
      if (!(error instanceof api.InputRefused)) throw error;
    }
    if (samples === this.samples.samples) this.samples.opinions = judged;
  }

  get evidential() {
    return this.models.find((model) => model.evidential);
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
    try {
      await this.trouble.attempt(async () => {
        const names = this.models.map(({ name }) => name);
        const answers = await opinionsOf(ANGLES.map((angle) => this.seen(angle)), names);
        answers.forEach((answer, index) => points.set(ANGLES[index], answer));
      });
      this.onChange();
    } catch (error) {
      if (!(error instanceof api.InputRefused)) throw error;
      this.trouble.say(`It can't be turned at once: ${error.message}.`, false);
    } finally {
      this.turning.stop();
    }
  }

  // Showing -------------------------------------------------------------------------------------

  // threshold: null for each model's own rule. markOf: (model) -> the same as a number, or null.
  render(threshold, markOf) {
    byId("sample-summary").textContent = this.evidential ? this.samples.judge(threshold) : "";
    for (const chart of this.charts) chart.show(this.points, this.angle, this.colours, markOf);
  }
}

class TurnedChart {
  constructor(model) {
    this.model = model;
    this.element = document.getElementById("chart-template").content.firstElementChild.cloneNode(true);
    this.element.dataset.model = model.name;
    this.element.querySelector("b").textContent = model.name;
    this.element.querySelector(".keys").hidden = !model.evidential;
    this.chart = new Chart(this.element.querySelector("svg"));
  }

  show(answers, angle, colours, markOf) {
    const { name, classes, evidential } = this.model;
    const points = [];
    for (const [at, { [name]: opinion }] of answers) {
      if (opinion.error !== null) continue;
      const { probabilities, uncertainty } = opinion;
      points.push(evidential ? { angle: at, probabilities, uncertainty } : { angle: at, probabilities });
    }
    const threshold = evidential ? markOf(this.model) : null;
    this.chart.show({ points, names: classes, angle, threshold, colours });
  }
}

function thumbnail(picture) {
  const canvas = document.createElement("canvas");
  paint(canvas, picture);
  return canvas;
}
