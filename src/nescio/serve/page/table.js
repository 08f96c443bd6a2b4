// A form with a field for each column of a table, built from what the model's file says of the columns.

import * as api from "./api.js";
import { firstOf } from "./photo.js";

const byId = (id) => document.getElementById(id);
const MOST_FIELDS = 100; // of wider tables the rest keeps its usual values
const MOST_OPTIONS = 50; // more values of a category are searched by typing
const ANOTHER = "(another)"; // stands for any value that the model never saw

export class TableForm {
  constructor(onChange) {
    this.element = byId("table");
    this.fields = [];
    this.element.addEventListener("submit", (event) => event.preventDefault());
    this.element.addEventListener("input", () => {
      this.check();
      onChange();
    });
    byId("usual").addEventListener("click", () => {
      this.reset();
      onChange();
    });
  }

  open([model]) {
    this.columns = model.columns;
    this.fields = this.columns.slice(0, MOST_FIELDS).map((column, index) => new Field(column, index));
    byId("fields").replaceChildren(...this.fields.map(({ element }) => element));
    const left = this.columns.length - this.fields.length;
    const rest = left > 0 ? ` ${left} further columns keep their usual values.` : "";
    byId("table-help").textContent = `It starts with usual values.${rest}`;
    this.reset();
  }

  reset() {
    for (const field of this.fields) field.reset();
    this.check();
  }

  check() {
    for (const field of this.fields) field.check();
  }

  get nothing() {
    const wrong = this.fields.find((field) => field.problem);
    return wrong ? ["No answer", wrong.problem] : ["No answer yet", ""];
  }

  get isReady() {
    return this.fields.every((field) => !field.problem);
  }

  async ask(names) {
    const row = {};
    this.columns.forEach((column, index) => {
      row[column.name] = this.fields[index]?.cell ?? cellOf(column, column.usual);
    });
    return firstOf(await api.opinions([row], names));
  }
}

class Field {
  constructor(column, index) {
    this.column = column;
    // The columns of a table without a header are called by their numbers.
    this.name = column.name === String(index + 1) ? `Column ${column.name}` : column.name;
    this.element = document.createElement("div");
    this.element.className = "field";
    const label = document.createElement("label");
    label.textContent = this.name;
    this.input = controlFor(column, index);
    this.input.id = `field-${index}`;
    label.htmlFor = this.input.id;
    this.hint = document.createElement("p");
    this.hint.className = "small";
    this.hint.id = `hint-${index}`;
    this.input.setAttribute("aria-describedby", this.hint.id);
    this.element.append(label, this.input, this.hint);
    if (this.input.list_) this.element.append(this.input.list_);
  }

  reset() {
    this.input.value = this.column.usual ?? "";
  }

  // What stands under the field: what is usual, and whether this is far from it or can't be sent.
  check() {
    const { least, most, may_be_empty: mayBeEmpty } = this.column;
    const { value } = this.input;
    this.problem = "";
    if (this.input.validity.badInput) this.problem = `“${this.name}” is not a ${this.column.kind}.`;
    else if (value === "" && !mayBeEmpty) this.problem = `“${this.name}” must be filled in.`;
    const usual = least === null || most === null ? "" : `mostly ${shown(least)} to ${shown(most)}`;
    const gaps = mayBeEmpty && this.column.kind !== "category" ? "may stay empty" : "";
    const far = value !== "" && usual && this.isFar(value);
    const hints = far ? `far from what it learned: ${usual}` : [usual, gaps].filter(Boolean).join("; ");
    this.hint.textContent = this.problem || hints;
    this.hint.classList.toggle("attention", Boolean(this.problem) || Boolean(far));
    this.input.setAttribute("aria-invalid", String(Boolean(this.problem)));
  }

  // From the mean, more than four times as far as the hint says: nearly none of the training data were there.
  isFar(value) {
    const [low, high, now] = [this.column.least, this.column.most, value].map((one) => this.asNumber(one));
    return Math.abs(now - (low + high) / 2) > 2 * (high - low);
  }

  asNumber(value) {
    return this.column.kind === "date" ? Date.parse(value) : Number(value);
  }

  get cell() {
    return cellOf(this.column, this.input.value);
  }
}

function controlFor(column, index) {
  if (column.kind === "category") return column.values.length > MOST_OPTIONS ? searched(column, index) : select(column);
  const input = document.createElement("input");
  if (column.kind === "date") {
    input.type = column.has_time ? "datetime-local" : "date";
  } else {
    input.type = "number";
    input.step = "any";
  }
  return input;
}

function select({ values, may_be_empty: mayBeEmpty }) {
  const element = document.createElement("select");
  element.append(...values.map((value) => new Option(value, value)));
  if (mayBeEmpty) element.append(new Option("not known", ""));
  element.append(new Option("another one", ANOTHER));
  return element;
}

function searched({ values }, index) {
  const input = document.createElement("input");
  const list = document.createElement("datalist");
  list.id = `values-${index}`;
  list.append(...values.map((value) => new Option(value, value)));
  input.setAttribute("list", list.id);
  input.list_ = list;
  return input;
}

// A cell as the table of the training data had it.
function cellOf({ kind, style }, value) {
  const text = String(value ?? "");
  if (text === "") return "";
  if (kind === "number" && style === "1.234,5") return plain(text).replace(".", ",");
  if (kind !== "date") return text;
  const [date, time] = text.split("T");
  const [year, month, day] = date.split("-");
  const parts = { "year-month-day": [year, month, day], "month/day/year": [month, day, year], "day/month/year": [day, month, year] };
  const written = parts[style].join(style === "year-month-day" ? "-" : "/");
  return time ? `${written} ${time}` : written;
}

// Without an exponent.
function plain(text) {
  return /e/i.test(text) ? Number(text).toFixed(20).replace(/\.?0+$/, "") : text;
}

function shown(value) {
  return String(value).replace("T", " ");
}
