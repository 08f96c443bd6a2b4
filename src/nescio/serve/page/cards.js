// A card for each model: its name, what it says, and with how much belief.

import { Bars, classRows } from "./bars.js";
import { UNKNOWN, accepts, howUsual, itIs, itMayBe, percent } from "./verdict.js";

const NOTES = {
  evidential: "Belief and uncertainty add up to 1. A line on the last bar is the threshold.",
  other: "Probabilities add up to 1 among the classes it knows: there is no place for doubt.",
};

export class Card {
  // short: where the sentence stands once more, beside the input, on narrow screens.
  constructor(model, short) {
    this.model = model;
    this.element = document.getElementById("card-template").content.firstElementChild.cloneNode(true);
    this.element.dataset.model = model.name;
    const heading = this.part("h2");
    heading.textContent = model.name;
    heading.id = `card-${encodeURIComponent(model.name)}`;
    this.element.setAttribute("aria-labelledby", heading.id);
    this.part(".about").textContent = about(model);
    this.part(".note").textContent = model.evidential ? NOTES.evidential : NOTES.other;
    const list = this.part(".bars");
    list.setAttribute("aria-label", model.evidential ? "Belief in each class, and uncertainty" : "Probability of each class");
    this.bars = new Bars(list);
    this.short = short;
    this.short.dataset.model = model.name;
  }

  part(selector) {
    return this.element.querySelector(selector);
  }

  // threshold: of uncertainty, null for the model's own rule. mark: the same as a number; null where it has none.
  show(opinion, threshold, mark) {
    if (opinion.error !== null) this.fail(opinion.error);
    else if (this.model.evidential) this.showOpinion(opinion, threshold, mark);
    else this.showProbabilities(opinion, mark);
    this.beside(".usual", howUsual(opinion.p_value), opinion.p_value === null ? "" : promise(opinion.p_value));
    this.beside(".set", itMayBe(opinion.set), this.model.sets ?? "");
  }

  showOpinion(opinion, threshold, mark) {
    const accepted = accepts(opinion, threshold);
    this.say(accepted ? itIs(opinion.best) : UNKNOWN, !accepted);
    const most = `Most belief: ${opinion.best}, ${percent(Math.max(...opinion.belief))}.`;
    this.detail(`Uncertainty ${percent(opinion.uncertainty)}. ${most}`);
    this.fill(opinion.belief, opinion.uncertainty, mark);
  }

  // mark: of an evidential model beside it, put to the normalised entropy, so that the comparison is fair.
  showProbabilities(opinion, mark) {
    const accepted = this.model.rule === null || opinion.accepted;
    this.say(accepted ? itIs(opinion.best) : UNKNOWN, !accepted);
    const best = `Probability${accepted ? "" : ` of ${opinion.best}`} ${percent(opinion.probability)}.`;
    const would = opinion.entropy < mark ? "it would answer" : `it would say “${UNKNOWN}”`;
    const entropy = `With the same threshold on its entropy, ${opinion.entropy.toFixed(2)}, ${would}.`;
    this.detail(mark === null ? best : `${best} ${entropy}`);
    this.fill(opinion.probabilities);
  }

  clear(sentence, detail, mark) {
    this.say(sentence);
    this.detail(detail);
    this.beside(".usual", null);
    this.beside(".set", null);
    this.fill(this.model.classes.map(() => 0), 0, mark);
  }

  fail(reason) {
    this.clear("No answer", reason, null);
    this.part(".detail").classList.add("attention");
  }

  fill(values, uncertainty = 0, mark = null) {
    const { classes, evidential } = this.model;
    const rows = classRows(classes, values, evidential ? "belief" : "probability");
    if (evidential) rows.push({ name: "uncertainty", value: uncertainty, kind: "doubt", mark });
    this.bars.show(rows);
  }

  say(text, unknown = false) {
    for (const place of [this.part(".sentence"), this.short]) {
      // A live region speaks on every change: the same sentence is not set again.
      if (place.textContent !== text) place.textContent = text;
      place.classList.toggle("unknown", unknown);
    }
  }

  // text: null for nothing. title: what it promises, said where the pointer rests on it.
  beside(selector, text, title = "") {
    const place = this.part(selector);
    place.hidden = text === null;
    place.textContent = text ?? "";
    place.title = title;
  }

  detail(text) {
    this.part(".detail").textContent = text;
    this.part(".detail").classList.remove("attention");
  }
}

function promise(pValue) {
  return `p-value ${pValue.toPrecision(2)}: of inputs like those of the training, at most a share a has one of a or less`;
}

function about({ about: method, encoder, trained_on: data }) {
  const further = [encoder, data && `trained on ${data}`].filter(Boolean).join(", ");
  return further ? `${method} (${further})` : method;
}
