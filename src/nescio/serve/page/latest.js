// Work that is asked for more often than it can be done: one at a time, and always the latest wish.

export class Latest {
  constructor(work, pause) {
    this.work = work;
    this.pause = pause;
    this.wanted = 0;
    this.running = null;
  }

  // Resolves when an answer to this wish, or to a later one, is there.
  ask() {
    this.wanted += 1;
    this.running ??= this.run().finally(() => (this.running = null));
    return this.running;
  }

  async run() {
    let done;
    do {
      await new Promise((resolve) => setTimeout(resolve, this.pause));
      done = this.wanted;
      await this.work();
    } while (done !== this.wanted);
  }
}
