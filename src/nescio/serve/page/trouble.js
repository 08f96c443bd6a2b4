// What is wrong, in one line above the page, with a way to try again.

import { ServiceError } from "./api.js";

const byId = (id) => document.getElementById(id);

export class Trouble {
  constructor(again) {
    this.again = again;
    byId("again").addEventListener("click", () => again());
  }

  // A busy service says when to come back, and that is done.
  async attempt(work) {
    clearTimeout(this.retry);
    try {
      await work();
      this.say("");
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      const { message, retryAfter } = error;
      this.say(message + (retryAfter ? ` It is asked again in ${retryAfter} s.` : ""));
      if (retryAfter) this.retry = setTimeout(() => this.again(), 1000 * retryAfter);
    }
  }

  // stale: the answers that are shown are not of what is asked now.
  say(text, stale = true) {
    byId("trouble-text").textContent = text;
    byId("again").hidden = !stale;
    byId("trouble").hidden = !text;
    document.body.classList.toggle("stale", Boolean(text) && stale);
  }
}
