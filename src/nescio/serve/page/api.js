// The service that this page comes from; it asks nobody else.

const PATIENCE = 60_000; // milliseconds: what the service itself has to read, to answer and to write
const TOKEN = "nescio-token";
const SURELY_TAKEN = 2 ** 16; // bytes of a body that no limit is asked for

let largest = null; // a promise of how many bytes a body may have

export class ServiceError extends Error {
  constructor(message, retryAfter = null) {
    super(message);
    this.retryAfter = retryAfter; // seconds, where the service said so
  }
}

// An input that a model can't answer: what was entered is at fault, not the service.
export class InputRefused extends Error {}

export async function models() {
  return (await ask("v1/models")).models;
}

export async function samples() {
  return ask("samples.json");
}

// Opinions of some models on inputs, as {name: [opinion, ...]}; an opinion may have an error, or a note.
export async function opinions(inputs, names) {
  return post(JSON.stringify({ inputs, models: names }), { "Content-Type": "application/json" });
}

// The same of a file, which the service reads as `nescio predict` does.
export async function opinionsOfFile(file, names) {
  await requireRoom(file.size);
  const form = new FormData();
  form.append("files", file, file.name || "picture");
  for (const name of names) form.append("models", name);
  return post(form, {});
}

async function post(body, headers) {
  const { size } = await new Response(body).blob();
  await requireRoom(size);
  const answer = await ask("v1/opinions", { method: "POST", headers, body });
  return Object.fromEntries(answer.results.map((result) => [result.model, noted(result)]));
}

// A server that gets more than it takes closes the connection, and what it said is often lost: it is not sent.
export async function requireRoom(size) {
  if (size <= SURELY_TAKEN) return;
  const most = await (largest ??= largestBody());
  if (size > most) {
    throw new InputRefused(`It is too large: ${mebibytes(size)}, and the server takes at most ${mebibytes(most)}.`);
  }
}

async function largestBody() {
  try {
    const { paths } = await ask("openapi.json");
    return paths["/v1/opinions"].post.requestBody["x-max-bytes"] ?? Infinity;
  } catch (error) {
    largest = null; // asked for again next time
    throw error;
  }
}

function mebibytes(bytes) {
  return `${Number((bytes / 2 ** 20).toFixed(1))} MiB`;
}

function noted({ opinions, notes = [] }) {
  const byName = new Map(notes.map(({ name, note }) => [name, note]));
  return opinions.map((opinion) => ({ ...opinion, note: byName.get(opinion.name) ?? "" }));
}

async function ask(path, options = {}) {
  const response = await answered(path, options);
  const body = await response.json().catch(() => null);
  if (response.ok && body) return body;
  if (response.status === 401 && askedForToken()) return ask(path, options);
  throw refusal(response, body);
}

// Of a service that has a token, for as long as the tab is open.
function askedForToken() {
  const token = window.prompt("This service asks for a token:");
  if (token) sessionStorage.setItem(TOKEN, token.trim());
  return Boolean(token);
}

async function answered(path, options) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? { ...options.headers, Authorization: `Bearer ${token}` } : options.headers;
  try {
    return await fetch(path, { ...options, headers, signal: AbortSignal.timeout(PATIENCE) });
  } catch (error) {
    const late = error.name === "TimeoutError";
    throw new ServiceError(late ? "The server takes too long." : "The server can't be reached. Is it running?");
  }
}

function refusal(response, body) {
  if (response.status === 503) {
    return new ServiceError("The server is busy.", Number(response.headers.get("Retry-After")) || 1);
  }
  if ([413, 422].includes(response.status) && body?.error) {
    return new InputRefused(body.error.replace(/^the model .*? can't answer .*?: /, ""));
  }
  return new ServiceError(`The server said no: ${body?.error ?? `status ${response.status}`}`);
}
