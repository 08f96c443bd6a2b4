// The two cards: what the evidential model believes, and what softmax says.

import { Bars, classRows } from "./bars.js";
import { UNKNOWN, accepts, itIs, percent, sentence } from "./verdict.js";

const nothing = (picture) => (picture ? "No answer yet" : "Nothing to look at yet");
const byId = (id) => document.getElementById(id);

// A live region speaks on every change: the same sentence is not set again.
function say(id, text) {
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

// The short one stands beside the pad on narrow screens.
function sayBoth(id, text, unknown = false) {
  for (const place of [id, `${id}-short`]) {
    say(place, text);
    byId(place).classList.toggle("unknown", unknown);
  }
}

export class EvidentialCard {
  constructor() {
    this.bars = new Bars(byId("beliefs"));
  }

  show(opinion, names, threshold, mark) {
    sayBoth("opinion", sentence(opinion, threshold), !accepts(opinion, threshold));
    const most = `Most belief: ${opinion.best}, ${percent(Math.max(...opinion.belief))}.`;
    say("opinion-detail", `Uncertainty ${percent(opinion.uncertainty)}. ${most}`);
    const doubt = { name: "uncertainty", value: opinion.uncertainty, kind: "doubt", mark };
    this.bars.show([...classRows(names, opinion.belief, "belief"), doubt]);
  }

  clear(names, picture, mark) {
    sayBoth("opinion", nothing(picture));
    say("opinion-detail", picture ? "" : "Draw, choose a sample or upload a picture.");
    const doubt = { name: "uncertainty", value: 0, kind: "doubt", mark };
    this.bars.show([...classRows(names, names.map(() => 0), "belief"), doubt]);
  }
}

export class SoftmaxCard {
  constructor() {
    this.bars = new Bars(byId("probabilities"));
  }

  // threshold: the same number, put to its normalised entropy, so that the comparison is fair; or null.
  show(opinion, names, threshold) {
    const best = Math.max(...opinion.probabilities);
    sayBoth("softmax", itIs(opinion.best));
    const would = opinion.entropy < threshold ? "it would answer" : `it would say “${UNKNOWN}”`;
    const entropy = `With the same threshold on its entropy, ${opinion.entropy.toFixed(2)}, ${would}.`;
    say("softmax-detail", `Probability ${percent(best)}. ${threshold === null ? "" : entropy}`.trim());
    this.bars.show(classRows(names, opinion.probabilities, "probability"));
  }

  clear(names, picture) {
    sayBoth("softmax", nothing(picture));
    say("softmax-detail", "");
    this.bars.show(classRows(names, names.map(() => 0), "probability"));
  }
}
