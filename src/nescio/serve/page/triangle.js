// The Dirichlet over the three strongest classes, on the triangle of their shares.

import { alphaOf, logDensity, strongest } from "./dirichlet.js";
import { draw } from "./svg.js";

const LONGEST = 11; // letters of a name: two of them stand side by side below the triangle
const [WIDTH, HEIGHT] = [240, 208]; // of the triangle; its height is sqrt(3)/2 of its side
const MARGIN = 30;
const PLACES = [[WIDTH / 2, -12, "middle"], [0, HEIGHT + 24, "start"], [WIDTH, HEIGHT + 24, "end"]]; // of the names

// Shares of the corners top, left and right at a point of the raster.
function shares(px, py) {
  const top = 1 - py / HEIGHT;
  const right = (px - (top * WIDTH) / 2) / WIDTH;
  return [top, 1 - top - right, right];
}

export class Triangle {
  constructor(canvas, svg) {
    this.canvas = canvas;
    this.svg = svg;
    [canvas.width, canvas.height] = [WIDTH, HEIGHT];
    svg.setAttribute("viewBox", `${-MARGIN} ${-MARGIN} ${WIDTH + 2 * MARGIN} ${HEIGHT + 2 * MARGIN}`);
    this.pixels = inside();
  }

  // Shares among three classes alone, p_i / (p_i + p_j + p_k), have the law Dirichlet(alpha_i, alpha_j, alpha_k)
  // whatever the other classes are: no other alpha enters. (Lumping the others together would be another picture.)
  show(opinion, names, prior) {
    const alpha = alphaOf(opinion, prior);
    const three = strongest(alpha, 3);
    const chosen = three.map((index) => alpha[index]);
    this.shade(chosen);
    this.frame(three.map((index) => names[index]), chosen);
    return three.map((index) => ({ name: names[index], alpha: alpha[index] }));
  }

  clear() {
    this.canvas.getContext("2d").clearRect(0, 0, WIDTH, HEIGHT);
    this.svg.replaceChildren();
    this.outline();
    this.svg.setAttribute("aria-label", "No opinion yet");
  }

  // The flat density, 2, is pale; four times that is half of the full colour; a peak is full.
  shade(alpha) {
    const context = this.canvas.getContext("2d");
    const image = context.createImageData(WIDTH, HEIGHT);
    const colour = getComputedStyle(this.canvas).color.match(/\d+(\.\d+)?/g).slice(0, 3).map(Number);
    const logs = logDensity(alpha);
    for (const { offset, point } of this.pixels) {
      const density = Math.exp(Math.min(logs(point), 50));
      image.data.set([...colour, 255 * (density / (density + 8))], offset);
    }
    context.putImageData(image, 0, 0);
  }

  frame(names, alpha) {
    this.svg.replaceChildren();
    this.outline();
    const total = alpha[0] + alpha[1] + alpha[2];
    const [top, left, right] = alpha.map((one) => one / total);
    draw(this.svg, "circle", { class: "mean", cx: WIDTH * (right + top / 2), cy: HEIGHT * (1 - top), r: 8 });
    names.forEach((name, i) => {
      const [x, y, anchor] = PLACES[i];
      const short = name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name;
      draw(this.svg, "text", { x, y, "text-anchor": name.length < 3 ? "middle" : anchor }, short);
    });
    const part = (name, i) => `${name} ${[top, left, right][i].toFixed(2)}`;
    this.svg.setAttribute("aria-label", `Mean shares ${names.map(part).join(", ")}; strength ${total.toFixed(1)}`);
  }

  outline() {
    draw(this.svg, "polygon", { points: `0,${HEIGHT} ${WIDTH},${HEIGHT} ${WIDTH / 2},0` });
  }
}

function inside() {
  const found = [];
  for (let y = 0; y < HEIGHT; y++) {
    for (let x = 0; x < WIDTH; x++) {
      const point = shares(x + 0.5, y + 0.5);
      if (Math.min(...point) > 0) found.push({ offset: 4 * (y * WIDTH + x), point: point.map(Math.log) });
    }
  }
  return found;
}
