// Several models, several angles: what each says of each.

import * as api from "./api.js";
import { toInput } from "./picture.js";

// pictureOf: (model, angle) -> picture. For each angle {name of a model: opinion}; models of one shape share a request.
export async function opinionsAt(angles, models, pictureOf) {
  const parts = await Promise.all(
    byShape(models).map((alike) => {
      const inputs = angles.map((angle) => toInput(pictureOf(alike[0], angle)));
      return api.opinions(inputs, alike.map(({ name }) => name));
    }),
  );
  const byName = Object.assign({}, ...parts);
  return angles.map((_, index) => Object.fromEntries(models.map(({ name }) => [name, byName[name][index]])));
}

function byShape(models) {
  const groups = new Map();
  for (const model of models) {
    const key = model.input_shape.join();
    groups.set(key, [...(groups.get(key) ?? []), model]);
  }
  return [...groups.values()];
}
