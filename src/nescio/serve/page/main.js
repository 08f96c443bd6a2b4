// The page: models that take the same input side by side, that input as it suits them, and one threshold.

import * as api from "./api.js";
import { Card } from "./cards.js";
import { Drawing } from "./drawing.js";
import { TITLES, grouped, invitation, knowsDigits, offer, remark } from "./groups.js";
import { Latest } from "./latest.js";
import { Photo } from "./photo.js";
import { TableForm } from "./table.js";
import { TextBox } from "./text.js";
import { Triangle } from "./triangle.js";
import { Trouble } from "./trouble.js";

const byId = (id) => document.getElementById(id);
const PAUSE = 40; // milliseconds in which strokes, letters and slider steps are gathered
const FEW_CLASSES = 12; // their names are shown at once

class Page {
  constructor() {
    this.groups = [];
    this.group = null; // of models, that was chosen last
    this.models = [];
    this.cards = [];
    this.shown = null; // {name of a model: opinion}
    this.refusal = null; // why there is none
    this.threshold = null; // null: each model's own rule
    this.latest = new Latest(() => this.look(), PAUSE);
    this.trouble = new Trouble(() => this.again());
    this.triangle = new Triangle(byId("density"), byId("corners"));
    const changed = () => this.changed();
    this.panels = {
      drawing: new Drawing(changed, this.trouble),
      photo: new Photo(changed),
      text: new TextBox(changed),
      table: new TableForm(changed),
    };
    this.panel = null;
    this.isOpen = false;
    byId("threshold").addEventListener("input", () => this.setThreshold(Number(byId("threshold").value)));
    byId("own").addEventListener("click", () => this.setThreshold(null));
    byId("triangle-choice").addEventListener("change", () => this.render());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.render());
  }

  async start() {
    await this.trouble.attempt(async () => {
      this.groups = grouped(await api.models());
      const shown = this.groups.filter(({ kind }) => kind !== null);
      this.press = offer(byId("groups"), shown, (group) => this.trouble.attempt(() => this.choose(group)));
      const former = shown.find(({ key }) => key === this.group?.key);
      if (shown.length) await this.choose(former ?? shown[0]);
      else byId("remark").textContent = remark(this.groups, { kind: null, models: [] });
      byId("remark").hidden = !byId("remark").textContent;
    });
  }

  // What is asked ---------------------------------------------------------------------------------

  async choose(group) {
    this.panel?.close?.();
    const { kind, models } = group;
    const chosen = { ...group }; // another object each time that it is chosen
    this.group = chosen;
    this.models = models;
    this.panel = this.panels[kind];
    this.isOpen = false;
    this.shown = this.refusal = null;
    byId("remark").textContent = remark(this.groups, group);
    byId("remark").hidden = !byId("remark").textContent;
    byId("invitation").textContent = invitation(group);
    byId("panel-title").textContent = TITLES[kind];
    this.press(group);
    for (const panel of Object.values(this.panels)) panel.element.hidden = panel !== this.panel;
    byId("turned").hidden = kind !== "drawing";
    const areDigits = kind === "drawing" && knowsDigits(models[0]);
    byId("about-digits").hidden = !areDigits;
    byId("about-others").hidden = areDigits;
    this.listClasses(areDigits ? [] : models[0].classes);
    this.deal();
    const main = document.querySelector("main");
    main.className = `for-${kind}`;
    main.hidden = false;
    this.setThreshold(null);
    await this.panel.open(models);
    if (chosen !== this.group) return;
    this.isOpen = true;
    this.changed();
  }

  // A card for each model.
  deal() {
    const short = this.panel.element.querySelector(".short");
    short.replaceChildren();
    this.cards = this.models.map((model) => new Card(model, shortFor(model, short)));
    byId("cards").replaceChildren(...this.cards.map(({ element }) => element));
    byId("cards").classList.toggle("alone", this.cards.length === 1);
    for (const part of document.querySelectorAll(".for-evidential")) part.hidden = !this.evidential.length;
    const names = this.evidential.map(({ name }) => name);
    byId("triangle-choice").replaceChildren(...names.map((name) => new Option(name, name)));
    byId("triangle-label").hidden = names.length < 2;
    byId("triangle").hidden = !names.length || this.models[0].classes.length < 3;
  }

  listClasses(classes) {
    const details = byId("classes");
    details.hidden = !classes.length;
    details.open = classes.length <= FEW_CLASSES;
    details.querySelector("summary").textContent = `It knows ${classes.length} classes`;
    details.querySelector("p").textContent = classes.join(", ");
  }

  get evidential() {
    return this.models.filter((model) => model.evidential);
  }

  changed() {
    this.refusal = null;
    if (!this.panel.isReady) {
      this.shown = null; // else the last answer stands until the next one is there
      this.panel.answered?.({});
    }
    this.render();
    return this.panel.isReady ? this.latest.ask() : null;
  }

  // Asking ----------------------------------------------------------------------------------------

  async look() {
    const { panel, models } = this;
    if (!panel?.isReady) return;
    await this.trouble.attempt(async () => {
      try {
        const answer = await panel.ask(models.map(({ name }) => name));
        if (!answer || models !== this.models || !panel.isReady) return;
        this.shown = answer;
        this.refusal = null;
      } catch (error) {
        if (!(error instanceof api.InputRefused)) throw error;
        if (models !== this.models) return;
        this.shown = null;
        this.refusal = error.message;
        return;
      }
      this.render(); // what comes now may take long, or fail
      await panel.answered?.(this.shown);
    });
    this.render();
  }

  again() {
    return this.isOpen ? this.latest.ask() : this.start();
  }

  // Showing ---------------------------------------------------------------------------------------

  setThreshold(value) {
    this.threshold = value;
    const own = value === null;
    const [first] = this.evidential;
    const mark = first ? this.markOf(first) : null;
    if (own) byId("threshold").value = mark ?? 0.5;
    const number = mark?.toFixed(2);
    const several = new Set(this.evidential.map((model) => model.threshold)).size > 1;
    const its = several ? "their own" : number ? `${number} (its own)` : "its own rule";
    byId("threshold-value").textContent = own ? its : number;
    byId("own").disabled = own;
    if (this.isOpen) this.render();
  }

  // The threshold as a number from 0 to 1; null where the model's own rule is not one of uncertainty. A model
  // without evidence is compared with the first that has it.
  markOf(model) {
    const ruled = model.evidential ? model : this.evidential[0];
    return ruled ? (this.threshold ?? ruled.threshold) : null;
  }

  render() {
    this.panel.render?.(this.threshold, (model) => this.markOf(model));
    for (const card of this.cards) this.renderCard(card);
    this.renderTriangle();
  }

  renderCard(card) {
    const opinion = this.shown?.[card.model.name];
    const mark = this.markOf(card.model);
    if (this.refusal !== null) card.fail(this.refusal);
    else if (opinion) card.show(opinion, this.threshold, mark);
    else card.clear(...this.panel.nothing, mark);
  }

  renderTriangle() {
    const model = this.evidential.find(({ name }) => name === byId("triangle-choice").value);
    const opinion = model && this.shown?.[model.name];
    byId("alphas").textContent = "";
    if (!opinion || opinion.error !== null || model.classes.length < 3) return this.triangle.clear();
    const corners = this.triangle.show(opinion, model.classes, model.prior);
    const part = ({ name, alpha }) => `${name}: ${alpha < 100 ? alpha.toFixed(1) : Math.round(alpha)}`;
    byId("alphas").textContent = `alpha ${corners.map(part).join(", ")}`;
  }
}

function shortFor({ name }, parent) {
  const line = document.createElement("p");
  const sentence = document.createElement("b");
  line.append(`${name}: `, sentence);
  parent.append(line);
  return sentence;
}

new Page().start();
