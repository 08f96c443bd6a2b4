// Several angles of a picture: what each model says of each.

import * as api from "./api.js";
import { toInput } from "./picture.js";

// pictures: one for each angle. For each {name of a model: opinion}.
export async function opinionsOf(pictures, names) {
  const byName = await api.opinions(pictures.map(toInput), names);
  return pictures.map((_, index) => Object.fromEntries(names.map((name) => [name, byName[name][index]])));
}
