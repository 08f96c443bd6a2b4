// A box for a text, which is asked of while it is written.

import * as api from "./api.js";
import { firstOf } from "./photo.js";

const byId = (id) => document.getElementById(id);

export class TextBox {
  constructor(onChange) {
    this.element = byId("text");
    this.box = byId("words");
    this.box.addEventListener("input", () => onChange());
    byId("words-clear").addEventListener("click", () => {
      this.box.value = "";
      this.box.focus();
      onChange();
    });
  }

  open(models) {
    const longest = Math.min(...models.map((model) => model.max_length));
    byId("words-help").textContent = `It reads the first ${longest} tokens; a word has one or a few.`;
    this.answered({});
  }

  get nothing() {
    return this.isReady ? ["No answer yet", ""] : ["Nothing to read yet", "Write something."];
  }

  get isReady() {
    return this.box.value.trim() !== "";
  }

  async ask(names) {
    return firstOf(await api.opinions([this.box.value], names));
  }

  answered(answers) {
    const notes = new Set(Object.values(answers).map(({ note }) => note).filter(Boolean));
    byId("words-note").textContent = [...notes].map((note) => `This text is ${note}.`).join(" ");
  }
}
