// Where a picture comes from: the pad, a sample or a file. fitted() brings it to the shape of a model.

import { blank, centre, fromCanvas, resize, swapped, withChannels } from "./picture.js";

const LARGEST_SIDE = 1024; // more is of no use to a small network

export function fromInk(ink) {
  return { picture: ink, drawn: true };
}

export function fromSample({ pixels, size }) {
  const bytes = Uint8Array.from(atob(pixels), (character) => character.charCodeAt(0));
  const picture = blank(1, size, size);
  picture.values.set(bytes);
  return { picture };
}

export async function fromFile(file) {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, LARGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext("2d");
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  return { picture: fromCanvas(canvas), uploaded: true };
}

export function fitted(source, [channels, height, width], swap) {
  // Channels first, as Pillow converts first.
  const size = (picture) => (source.drawn ? centre(picture, height, width) : resize(picture, height, width));
  const whole = source.drawn
    ? withChannels(size(source.picture), channels)
    : size(withChannels(source.picture, channels));
  return swap ? swapped(whole) : whole;
}
