// The service that this page comes from; it asks nobody else.

const PATIENCE = 15000;

export class ServiceError extends Error {
  constructor(message, retryAfter = null) {
    super(message);
    this.retryAfter = retryAfter; // seconds, where the service said so
  }
}

export async function models() {
  return (await ask("v1/models")).models;
}

export async function samples() {
  return ask("samples.json");
}

// Opinions of some models on inputs, as {name: [opinion, ...]}.
export async function opinions(inputs, names) {
  const answer = await ask("v1/opinions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ inputs, models: names }),
  });
  for (const { opinions } of answer.results) {
    const failed = opinions.find((opinion) => opinion.error !== null);
    if (failed) throw new ServiceError(`The server said no: ${failed.error}`);
  }
  return Object.fromEntries(answer.results.map((result) => [result.model, result.opinions]));
}

async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, signal: AbortSignal.timeout(PATIENCE) });
  } catch (error) {
    const late = error.name === "TimeoutError";
    throw new ServiceError(late ? "The server takes too long." : "The server can't be reached. Is it running?");
  }
  const body = await response.json().catch(() => null);
  if (response.ok && body) return body;
  throw refusal(response, body);
}

function refusal(response, body) {
  if (response.status === 503) {
    return new ServiceError("The server is busy.", Number(response.headers.get("Retry-After")) || 1);
  }
  return new ServiceError(`The server said no: ${body?.error ?? `status ${response.status}`}`);
}
