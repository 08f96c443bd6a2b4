// The two cards: what the evidential model believes, and what softmax says.

import { Bars, classRows } from "./bars.js";
import { UNKNOWN, accepts, itIs, percent, sentence } from "./verdict.js";

const byId = (id) => document.getElementById(id);

// A live region speaks on every change: the same sentence is not set again.
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export class EvidentialCard {
  constructor() {
    this.bars = new Bars(byId("beliefs"));
  }

  show(opinion, names, threshold, mark) {
    const answered = accepts(opinion, threshold);
    byId("opinion").classList.toggle("unknown", !answered);
    say(byId("opinion"), sentence(opinion, threshold));
    const most = `Most belief: ${opinion.best}, ${percent(Math.max(...opinion.belief))}.`;
    say(byId("opinion-detail"), `Uncertainty ${percent(opinion.uncertainty)}. ${most}`);
    const doubt = { name: "uncertainty", value: opinion.uncertainty, kind: "doubt", mark };
    this.bars.show([...classRows(names, opinion.belief, "belief"), doubt]);
  }

  clear(names, mark) {
    byId("opinion").classList.remove("unknown");
    say(byId("opinion"), "Nothing to look at yet");
    say(byId("opinion-detail"), "Draw, choose a sample or upload a picture.");
    const doubt = { name: "uncertainty", value: 0, kind: "doubt", mark };
    this.bars.show([...classRows(names, names.map(() => 0), "belief"), doubt]);
  }
}

export class SoftmaxCard {
  constructor() {
    this.bars = new Bars(byId("probabilities"));
  }

  // threshold: the same number, put to its normalised entropy, so that the comparison is fair.
  show(opinion, names, threshold) {
    const best = Math.max(...opinion.probabilities);
    say(byId("softmax"), itIs(opinion.best));
    const would = opinion.entropy < threshold ? "it would answer" : `it would say “${UNKNOWN}”`;
    const entropy = `With the same threshold on its entropy, ${opinion.entropy.toFixed(2)}, ${would}.`;
    say(byId("softmax-detail"), `${percent(best)} sure. ${entropy}`);
    this.bars.show(classRows(names, opinion.probabilities, "probability"));
  }

  clear(names) {
    say(byId("softmax"), "Nothing to look at yet");
    say(byId("softmax-detail"), "");
    this.bars.show(classRows(names, names.map(() => 0), "probability"));
  }
}
