// A list of bars: name, bar, number. The list is the text that a screen reader reads.

const MOST_ROWS = 12; // classes that are all shown
const STRONGEST = 5; // of more than that

export class Bars {
  constructor(list) {
    this.list = list;
  }

  // rows: {name, value, kind, mark}; mark: a line across the bar, 0..1; null for none.
  show(rows) {
    while (this.list.children.length > rows.length) this.list.lastElementChild.remove();
    while (this.list.children.length < rows.length) this.list.append(emptyRow());
    rows.forEach((row, index) => fill(this.list.children[index], row));
  }
}

// The classes of an answer: all of them, or where they are many the strongest, and the others together.
export function classRows(names, values, kind) {
  const rows = names.map((name, index) => ({ name, value: values[index], kind }));
  if (rows.length <= MOST_ROWS) return rows;
  rows.sort((a, b) => b.value - a.value);
  const others = rows.slice(STRONGEST);
  const rest = others.reduce((sum, row) => sum + row.value, 0);
  return [...rows.slice(0, STRONGEST), { name: `${others.length} others`, value: rest, kind: `${kind} others` }];
}

function emptyRow() {
  const row = document.createElement("li");
  for (const part of ["name", "track", "number"]) {
    const element = document.createElement("span");
    element.className = part;
    row.append(element);
  }
  const track = row.querySelector(".track");
  track.setAttribute("aria-hidden", "true");
  track.append(document.createElement("span"));
  return row;
}

function fill(row, { name, value, kind, mark }) {
  row.className = kind;
  row.querySelector(".name").textContent = name;
  row.querySelector(".name").title = name;
  row.querySelector(".number").textContent = value.toFixed(2);
  row.querySelector(".number").title = value.toPrecision(3);
  row.querySelector(".track > span").style.width = `${100 * value}%`;
  setMark(row.querySelector(".track"), mark);
}

function setMark(track, mark) {
  let line = track.querySelector(".mark");
  if (mark === undefined || mark === null) return line?.remove();
  if (!line) {
    line = document.createElement("span");
    line.className = "mark";
    track.append(line);
  }
  line.style.left = `${100 * Math.min(Math.max(mark, 0), 1)}%`;
}
