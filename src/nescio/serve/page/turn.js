// Turning by itself: from 0 to 180 degrees, each step once the last one is answered.

const STEP = 5;
const PAUSE = 40; // milliseconds between steps, so that the eye can follow

export const ANGLES = Array.from({ length: 180 / STEP + 1 }, (_, index) => index * STEP);

export class Turning {
  constructor(button, goTo) {
    this.button = button;
    this.goTo = goTo; // (angle) -> promise of whether it was answered
    this.active = null;
    button.addEventListener("click", () => (this.active ? this.stop() : this.start()));
  }

  stop() {
    this.active = null;
    this.button.textContent = "Turn by itself";
  }

  async start() {
    const run = (this.active = {});
    this.button.textContent = "Stop turning";
    for (const angle of ANGLES) {
      if (!(await this.goTo(angle)) || this.active !== run) break;
      await new Promise((resolve) => setTimeout(resolve, PAUSE));
      if (this.active !== run) return;
    }
    if (this.active === run) this.stop();
  }
}
