// A picture file: chosen, dropped or pasted. It is sent as it is; the service reads it as `nescio predict` does.

import * as api from "./api.js";

const byId = (id) => document.getElementById(id);
const LARGEST_PREVIEW = 640; // pixels
const HOW = { crop: "its middle", stretch: "all of it, stretched", pad: "all of it, with bars" };

export class Photo {
  constructor(onChange) {
    this.element = byId("photo");
    this.onChange = onChange;
    this.file = null;
    this.image = null; // as this browser reads it; null where it can't
    const input = byId("photo-file");
    input.addEventListener("change", () => {
      const [file] = input.files;
      input.value = ""; // the same file can be chosen again
      this.take(file);
    });
    this.listenForDrops();
  }

  listenForDrops() {
    const drop = this.element;
    drop.addEventListener("dragover", (event) => event.preventDefault());
    drop.addEventListener("drop", (event) => {
      event.preventDefault();
      this.take(event.dataTransfer.files[0]);
    });
    document.addEventListener("paste", (event) => {
      if (!this.element.hidden) this.take(event.clipboardData.files[0]);
    });
  }

  open(models) {
    [this.model] = models;
    this.see();
  }

  get nothing() {
    return this.file ? ["No answer yet", ""] : ["Nothing to look at yet", "Choose a picture."];
  }

  get isReady() {
    return this.file !== null;
  }

  async take(file) {
    if (!file) return;
    this.file = file;
    const image = await decoded(file);
    if (this.file !== file) {
      image?.close(); // another one came between
      return;
    }
    this.image?.close();
    this.image = image;
    this.preview();
    this.see();
    this.onChange();
  }

  preview() {
    byId("photo-name").textContent = this.file.name;
    if (!this.image) return;
    const scale = Math.min(1, LARGEST_PREVIEW / Math.max(this.image.width, this.image.height));
    const canvas = byId("photo-preview");
    canvas.width = Math.max(1, Math.round(this.image.width * scale));
    canvas.height = Math.max(1, Math.round(this.image.height * scale));
    canvas.getContext("2d").drawImage(this.image, 0, 0, canvas.width, canvas.height);
    canvas.setAttribute("aria-label", `The picture ${this.file.name}`);
  }

  // What reaches the network, as the model's file says it.
  see() {
    byId("photo-pictures").hidden = !this.image;
    if (!this.image) return;
    const [channels, height, width] = this.model.input_shape;
    const { resize } = this.model;
    byId("photo-size").textContent = `What it sees: ${HOW[resize]}, ${width} x ${height}`;
    const canvas = byId("photo-seen");
    [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext("2d");
    if (channels === 1) context.filter = "grayscale(1)";
    context.imageSmoothingQuality = "high";
    const place = placed(this.image, width, height, resize);
    context.drawImage(this.image, place.left, place.top, place.width, place.height);
  }

  async ask(names) {
    return firstOf(await api.opinionsOfFile(this.file, names));
  }
}

// null for what this browser can't read, and for what is too large to be sent: that is said when it is asked for.
async function decoded(file) {
  try {
    await api.requireRoom(file.size);
  } catch (error) {
    if (error instanceof api.InputRefused) return null;
  }
  return createImageBitmap(file).catch(() => null);
}

function placed(image, width, height, resize) {
  if (resize === "stretch") return { left: 0, top: 0, width, height };
  const ratios = [width / image.width, height / image.height];
  const scale = resize === "crop" ? Math.max(...ratios) : Math.min(...ratios);
  const size = { width: image.width * scale, height: image.height * scale };
  return { left: (width - size.width) / 2, top: (height - size.height) / 2, ...size };
}

// Of {name: [opinion]}, {name: opinion}.
export function firstOf(answers) {
  return Object.fromEntries(Object.entries(answers).map(([name, [opinion]]) => [name, opinion]));
}
