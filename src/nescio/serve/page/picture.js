// Pictures as {channels, height, width, values}: values 0..255, row by row, one channel after the other.

export function blank(channels, height, width) {
  return { channels, height, width, values: new Float32Array(channels * height * width) };
}

// Bilinear, the filter widened where a picture shrinks, so that thin strokes survive: as `nescio predict` does.
export function resize(picture, height, width) {
  if (picture.height === height && picture.width === width) return picture;
  return resizeRows(transpose(resizeRows(transpose(picture), width)), height);
}

function resizeRows(picture, height) {
  const result = blank(picture.channels, height, picture.width);
  const scale = picture.height / height;
  const reach = Math.max(1, scale);
  for (let y = 0; y < height; y++) {
    const middle = (y + 0.5) * scale;
    const first = Math.max(0, Math.floor(middle - reach));
    const last = Math.min(picture.height, Math.ceil(middle + reach));
    const weights = [];
    for (let row = first; row < last; row++) weights.push(Math.max(0, 1 - Math.abs(row + 0.5 - middle) / reach));
    addRows(picture, result, y, first, weights);
  }
  return result;
}

function addRows(picture, result, y, first, weights) {
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const { channels, width } = picture;
  for (let channel = 0; channel < channels; channel++) {
    const target = (channel * result.height + y) * width;
    weights.forEach((weight, index) => {
      const source = (channel * picture.height + first + index) * width;
      for (let x = 0; x < width; x++) {
        result.values[target + x] += (weight / total) * picture.values[source + x];
      }
    });
  }
}

function transpose(picture) {
  const { channels, height, width } = picture;
  const result = blank(channels, width, height);
  for (let channel = 0; channel < channels; channel++) {
    const start = channel * height * width;
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        result.values[start + x * height + y] = picture.values[start + y * width + x];
      }
    }
  }
  return result;
}

// Counter-clockwise about the centre, bilinear, black from outside: as nescio.metrics.rotation.
export function turn(picture, degrees) {
  if (degrees === 0) return picture;
  const { channels, height, width } = picture;
  const result = blank(channels, height, width);
  const angle = (degrees * Math.PI) / 180;
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  const [middleX, middleY] = [(width - 1) / 2, (height - 1) / 2];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const [right, down] = [x - middleX, y - middleY];
      const [fromX, fromY] = [c * right - s * down + middleX, s * right + c * down + middleY];
      for (let channel = 0; channel < channels; channel++) {
        result.values[(channel * height + y) * width + x] = between(picture, channel, fromX, fromY);
      }
    }
  }
  return result;
}

function between(picture, channel, x, y) {
  const [left, top] = [Math.floor(x), Math.floor(y)];
  let value = 0;
  for (const [column, row] of [[left, top], [left + 1, top], [left, top + 1], [left + 1, top + 1]]) {
    if (column < 0 || row < 0 || column >= picture.width || row >= picture.height) continue;
    const weight = (1 - Math.abs(x - column)) * (1 - Math.abs(y - row));
    value += weight * picture.values[(channel * picture.height + row) * picture.width + column];
  }
  return value;
}

const BOX = 20 / 28; // MNIST fits a digit into 20 of its 28 pixels,
const LEAST_INK = 0.25; // but a dot stays a dot: ink is never blown up beyond a quarter of the pad

// Ink on black of one channel, as MNIST has it: scaled into the box, then its mass brought to the middle.
export function centre(ink, height, width) {
  const bounds = boundsOf(ink);
  const result = blank(1, height, width);
  if (!bounds) return result;
  const longest = Math.max(bounds.height, bounds.width, LEAST_INK * ink.height);
  const scale = (BOX * Math.min(height, width)) / longest;
  const size = (length) => Math.max(1, Math.round(length * scale));
  const small = resize(cut(ink, bounds), size(bounds.height), size(bounds.width));
  const mass = massOf(small);
  const left = within(Math.round(width / 2 - mass.x), width - small.width);
  const top = within(Math.round(height / 2 - mass.y), height - small.height);
  for (let y = 0; y < small.height; y++) {
    const row = small.values.subarray(y * small.width, (y + 1) * small.width);
    result.values.set(row, (top + y) * width + left);
  }
  return result;
}

function within(value, most) {
  return Math.min(Math.max(value, 0), most);
}

function boundsOf(ink) {
  let [top, left, bottom, right] = [ink.height, ink.width, -1, -1];
  ink.values.forEach((value, index) => {
    if (value < 1) return;
    const [x, y] = [index % ink.width, Math.floor(index / ink.width)];
    [left, right, top, bottom] = [Math.min(left, x), Math.max(right, x), Math.min(top, y), Math.max(bottom, y)];
  });
  return bottom < 0 ? null : { top, left, height: bottom - top + 1, width: right - left + 1 };
}

function cut(ink, { top, left, height, width }) {
  const result = blank(1, height, width);
  for (let y = 0; y < height; y++) {
    const start = (top + y) * ink.width + left;
    result.values.set(ink.values.subarray(start, start + width), y * width);
  }
  return result;
}

// The centre of mass, a pixel's middle being half a pixel from its edge.
function massOf(ink) {
  let [total, x, y] = [0, 0, 0];
  ink.values.forEach((value, index) => {
    total += value;
    x += value * ((index % ink.width) + 0.5);
    y += value * (Math.floor(index / ink.width) + 0.5);
  });
  return { x: x / total, y: y / total };
}

// Grey as luma, colour from grey by repetition.
export function withChannels(picture, channels) {
  if (picture.channels === channels) return picture;
  const grey = picture.channels === 1 ? picture : luma(picture);
  const result = blank(channels, picture.height, picture.width);
  for (let channel = 0; channel < channels; channel++) {
    result.values.set(grey.values, channel * grey.values.length);
  }
  return result;
}

function luma({ height, width, values }) {
  const result = blank(1, height, width);
  const size = height * width;
  for (let i = 0; i < size; i++) {
    result.values[i] = 0.299 * values[i] + 0.587 * values[size + i] + 0.114 * values[2 * size + i];
  }
  return result;
}

export function swapped(picture) {
  return { ...picture, values: picture.values.map((value) => 255 - value) };
}

// What is sent: whole numbers, (C, H, W) as nested lists.
export function toInput({ channels, height, width, values }) {
  const row = (start) => Array.from(values.subarray(start, start + width), (value) => within(Math.round(value), 255));
  const plane = (channel) => Array.from({ length: height }, (_, y) => row((channel * height + y) * width));
  return Array.from({ length: channels }, (_, channel) => plane(channel));
}

// Pixel for pixel; the style sheet enlarges it without smoothing.
export function paint(canvas, picture) {
  const { channels, height, width, values } = picture;
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  const size = height * width;
  for (let i = 0; i < size; i++) {
    for (let colour = 0; colour < 3; colour++) {
      image.data[4 * i + colour] = Math.round(values[(channels === 3 ? colour : 0) * size + i]);
    }
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

// A canvas or its like, over white where it is transparent, as three channels.
export function fromCanvas(canvas) {
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const result = blank(3, height, width);
  const size = height * width;
  for (let i = 0; i < size; i++) {
    for (let colour = 0; colour < 3; colour++) result.values[colour * size + i] = data[4 * i + colour];
  }
  return result;
}
