// A pad to draw on with mouse, pen or finger: white ink on black.

import { blank } from "./picture.js";

const INK = 24; // of 280: about as thick as a stroke of MNIST once it is scaled down

export class Pad {
  constructor(canvas, onStroke) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { willReadFrequently: true });
    this.onStroke = onStroke;
    this.last = null;
    this.clear();
    canvas.addEventListener("pointerdown", (event) => this.start(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => this.end(event));
  }

  clear() {
    this.context.fillStyle = "black";
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    this.canvas.classList.remove("inked");
  }

  ink() {
    const { width, height } = this.canvas;
    const { data } = this.context.getImageData(0, 0, width, height);
    const result = blank(1, height, width);
    for (let i = 0; i < result.values.length; i++) result.values[i] = data[4 * i];
    return result;
  }

  start(event) {
    if (event.button !== 0 || !event.isPrimary) return; // a second finger draws no line to the first
    event.preventDefault();
    this.canvas.setPointerCapture(event.pointerId);
    this.last = this.place(event);
    this.stroke(this.last);
  }

  move(event) {
    if (!this.last || !event.isPrimary) return;
    const passed = event.getCoalescedEvents?.() ?? [];
    for (const one of passed.length ? passed : [event]) this.stroke(this.place(one));
  }

  end({ isPrimary }) {
    if (isPrimary) this.last = null;
  }

  stroke(to) {
    Object.assign(this.context, { strokeStyle: "white", lineWidth: INK, lineCap: "round", lineJoin: "round" });
    this.context.beginPath();
    this.context.moveTo(this.last.x, this.last.y);
    this.context.lineTo(to.x, to.y);
    this.context.stroke();
    this.last = to;
    this.canvas.classList.add("inked");
    this.onStroke();
  }

  place({ clientX, clientY }) {
    const box = this.canvas.getBoundingClientRect();
    const scale = this.canvas.width / box.width;
    return { x: (clientX - box.left) * scale, y: (clientY - box.top) * scale };
  }
}
