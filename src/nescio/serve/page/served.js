// What the service offers, and which of it this page can show.

export function sorted(models) {
  const pictures = models.filter(takesPictures);
  return {
    evidential: pictures.filter((model) => model.evidential),
    softmax: pictures.filter((model) => !model.evidential),
    others: models.filter((model) => !takesPictures(model)),
  };
}

function takesPictures({ input_shape: shape }) {
  return shape.length === 3 && shape[0] >= 1 && shape[0] <= 3;
}

export function remark({ evidential, softmax, others }) {
  const lines = others.map(
    ({ name, input_shape: shape }) =>
      `${name} takes inputs of shape ${shape.join(" x ")}, not pictures: this page can't show it. ` +
      "Ask it by POST /v1/opinions.",
  );
  if (!evidential.length) lines.push("No evidential model for pictures is served here: there is no opinion to show.");
  if (!softmax.length) lines.push("No softmax model is served. To compare, serve both: nescio serve A B.");
  return lines.join(" ");
}

// A choice appears only where there is one.
export function offer(select, models, onChoice) {
  select.replaceChildren(...models.map(({ name }) => new Option(name, name)));
  select.closest("label").hidden = models.length < 2;
  select.onchange = () => onChoice(models[select.selectedIndex]);
}
