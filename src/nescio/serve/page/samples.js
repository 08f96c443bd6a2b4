// Sample pictures as buttons; under each, what the evidential model says of it.

import { fitted, fromSample } from "./source.js";
import { paint, toInput } from "./picture.js";
import { accepts } from "./verdict.js";

export class Samples {
  constructor(groups, onChoice) {
    this.groups = groups; // {name: element}
    this.onChoice = onChoice;
    this.samples = [];
    this.opinions = null; // one for each sample; none at all where the service refused them
  }

  // isShown: (sample) -> whether it is of use for the models that are asked.
  fill({ size, groups }, isShown) {
    this.samples = [];
    this.opinions = null;
    for (const [group, pictures] of Object.entries(groups)) {
      const shown = pictures.filter(isShown);
      this.groups[group].replaceChildren();
      this.groups[group].hidden = document.getElementById(`${group}-title`).hidden = !shown.length;
      for (const { name, pixels } of shown) this.add(group, name, fromSample({ pixels, size }));
    }
  }

  add(group, name, source) {
    const button = document.createElement("button");
    const [canvas, says] = [document.createElement("canvas"), document.createElement("span")];
    button.type = "button";
    button.className = "sample";
    says.textContent = "…";
    button.append(canvas, says);
    paint(canvas, source.picture);
    const sample = { group, name, source, button, says };
    button.addEventListener("click", () => this.onChoice(sample));
    this.groups[group].append(button);
    this.samples.push(sample);
    label(sample, "");
  }

  named(name) {
    return this.samples.find((sample) => sample.name === name);
  }

  press(chosen) {
    for (const sample of this.samples) sample.button.setAttribute("aria-pressed", String(sample === chosen));
  }

  inputs(shape) {
    return this.samples.map(({ source }) => toInput(fitted(source, shape, false)));
  }

  // Says how many of each group are rejected.
  judge(threshold) {
    if (!this.opinions) return "";
    if (!this.opinions.length) {
      for (const { says } of this.samples) says.textContent = "";
      return "";
    }
    const counts = {};
    this.samples.forEach((sample, index) => {
      const opinion = this.opinions[index];
      const accepted = accepts(opinion, threshold);
      const count = (counts[sample.group] ??= { rejected: 0, all: 0 });
      count.all += 1;
      count.rejected += accepted ? 0 : 1;
      sample.says.textContent = accepted ? opinion.best : "?";
      sample.button.classList.toggle("rejected", !accepted);
      label(sample, accepted ? `: the evidential model says ${opinion.best}` : ": rejected, it does not know");
    });
    const parts = Object.entries(counts).map(([group, { rejected, all }]) => `${rejected} of ${all} ${group}`);
    return `Rejected ${threshold === null ? "by its own rule" : "at this threshold"}: ${parts.join(", ")}.`;
  }
}

function label({ button, group, name }, verdict) {
  button.setAttribute("aria-label", `Sample ${group.replace(/s$/, "")} ${name}${verdict}`);
}
