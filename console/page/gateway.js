// The HTTP interface of pqd: the only thing that the console speaks to.

const tokenKey = "pqbridge-token";

export class Refused extends Error {
  constructor(status, error) {
    super(error?.description ?? `The answer is ${status}.`);
    this.status = status;
    this.reason = error?.reason;
  }
}

export const setToken = (token) => sessionStorage.setItem(tokenKey, token);

// path builds a path of segments, and parameters that are not empty.
export function path(segments, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of [value].flat()) if (one != null && one !== "") query.append(name, one);
  }
  const text = query.toString();
  return `/v1/${segments.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

function send(method, at, body, signal) {
  const token = sessionStorage.getItem(tokenKey);
  return fetch(at, { method, body, signal, cache: "no-store", headers: token ? { Authorization: `Bearer ${token}` } : {} });
}

// call sends a request and returns its answer.
export async function call(method, at, body) {
  let answer;
  try {
    answer = await send(method, at, body);
  } catch {
    throw new Refused(0, { description: "pqd does not answer." });
  }
  const text = await answer.text();
  let parsed;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new Refused(answer.status, { description: text.slice(0, 300) });
  }
  if (!answer.ok) throw new Refused(answer.status, parsed.error);
  return parsed;
}

export const get = (at) => call("GET", at);

// watch has the answers to paths, and their changes, until the signal aborts. on gets the
// status and the answer of a path; told is whether the stream lives.
export async function watch(paths, signal, on, told) {
  for (let pause = 250; !signal.aborted; pause = Math.min(2 * pause, 5000)) {
    try {
      const answer = await send("GET", `/v1/watch?${new URLSearchParams(paths.map((p) => ["path", p]))}`, undefined, signal);
      if (!answer.ok) {
        const { error } = await answer.json();
        throw new Refused(answer.status, error);
      }
      pause = 250;
      told(true);
      for await (const event of events(answer.body)) on(event.path, event.status, event.body);
    } catch (error) {
      if (signal.aborted) return;
      told(false, error instanceof Refused ? error : null);
      if (error instanceof Refused && error.status < 500 && error.status !== 429) return;
    }
    if (!signal.aborted) told(false, null);
    await new Promise((wake) => setTimeout(wake, pause));
  }
}

// events reads server-sent events. EventSource cannot show a token.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let held = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    const parts = held.split("\n\n");
    held = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield JSON.parse(part.slice(6));
  }
}
