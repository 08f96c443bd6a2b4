// What the service offers: models that take the same inputs and know the same classes stand side by side.

const DIGITS = "0123456789";

// [{key, kind, models}]: kind is "drawing", "photo", "text", "table", or null for what this page can't show.
export function grouped(models) {
  const groups = new Map();
  for (const model of models) {
    const kind = kindOf(model);
    const key = JSON.stringify([kind, kind && model.classes, columnsOf(model)]);
    if (!groups.has(key)) groups.set(key, { key, kind, models: [] });
    groups.get(key).models.push(model);
  }
  const found = [...groups.values()];
  for (const group of found) group.models.sort((a, b) => Number(b.evidential) - Number(a.evidential));
  return found;
}

function kindOf({ kind, input_shape: [channels, height, width] }) {
  if (kind === "texts") return "text";
  if (kind === "rows") return "table";
  if (channels === 1 && height === 28 && width === 28) return "drawing";
  return channels === 1 || channels === 3 ? "photo" : null;
}

function columnsOf({ columns }) {
  return columns?.map(({ name, kind, style }) => [name, kind, style]) ?? null;
}

// Whether the classes are the ten digits, as those of the pair that comes with the package.
export function knowsDigits({ classes }) {
  return classes.length === DIGITS.length && [...DIGITS].every((digit) => classes.includes(digit));
}

export const TITLES = { drawing: "The picture", photo: "The picture", text: "The text", table: "The row" };

export function invitation({ kind, models: [model] }) {
  if (kind === "drawing") return knowsDigits(model) ? "Draw a digit, turn it, or show it a letter." : "Draw, and turn it.";
  if (kind === "photo") return "Show it a picture of what it knows, and then one of something else.";
  if (kind === "text") return "Write something that it knows, and then something else.";
  return "Change the values, and see where it is sure and where it is not.";
}

export function remark(groups, { kind, models }) {
  const unknown = groups.filter((group) => group.kind === null).flatMap((group) => group.models);
  const lines = unknown.map(
    ({ name, input_shape: shape }) =>
      `${name} takes inputs of shape ${shape.join(" x ")}: this page can't show it. Ask it by POST /v1/opinions.`,
  );
  if (!kind) return lines.join(" ");
  if (!models.some(({ evidential }) => evidential)) {
    lines.push("No evidential model is served here: there is no opinion to show.");
  }
  if (kind === "drawing" && models.every(({ evidential }) => evidential)) {
    lines.push("No softmax model is served. To compare, serve both: nescio serve A B.");
  }
  return lines.join(" ");
}

// Buttons to choose a group by; there are none where there is no choice. Gives what marks one as chosen.
export function offer(nav, groups, onChoice) {
  nav.hidden = groups.length < 2;
  const buttons = groups.map((group) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = group.models.map(({ name }) => name).join(", ");
    button.addEventListener("click", () => onChoice(group));
    return button;
  });
  nav.replaceChildren(...buttons);
  return (chosen) => {
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(groups[index] === chosen)));
  };
}
