// The HTTP interface of pqd: the only thing that the console speaks to.

const tokenKey = "pqbridge-token";

// tokenAsked is what pqd says of the token, as a sentence for people, who write no header.
const tokenAsked = (text) => text ? `${text[0].toUpperCase()}${text.slice(1).split(", as the header")[0]}.` : "This is not the token.";

export class Refused extends Error {
  constructor(status, error) {
    super(status === 401 ? tokenAsked(error?.description) : error?.description ?? `The answer is ${status}.`);
    this.status = status;
    this.reason = error?.reason;
  }
}

export const setToken = (token) => sessionStorage.setItem(tokenKey, token);

// parse reads JSON. Whole numbers that a float does not have become BigInts.
export const parse = (text) => JSON.parse(text, (_, value, context) =>
  typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value);

// path builds a path of segments, and parameters that are not empty.
export function path(segments, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of [value].flat()) if (one != null && one !== "") query.append(name, one);
  }
  const text = query.toString();
  return `/v1/${segments.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

// send refuses a path that the browser would shorten: that of the key .. is another one's.
function send(method, at, body, signal) {
  if (new URL(at, location.origin).pathname !== at.split("?")[0]) throw new Refused(0, { description: "Browsers have no address for this name. pq has." });
  const token = sessionStorage.getItem(tokenKey);
  return fetch(at, { method, body, signal, cache: "no-store", headers: token ? { Authorization: `Bearer ${token}` } : {} });
}

// silence is how long pqd, or the network before it, may say nothing. A stream has a sign of
// life every 15 seconds.
const silence = 40000;

// patience has a signal that aborts after a silence, or with others.
function patience(...others) {
  const over = new AbortController();
  let timer;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => over.abort(), silence);
  };
  heard();
  return { signal: AbortSignal.any([over.signal, ...others]), heard, end: () => clearTimeout(timer) };
}

// call sends a request and returns its answer.
export async function call(method, at, body) {
  const { signal, end } = patience();
  let answer;
  let text;
  try {
    answer = await send(method, at, body, signal);
    text = await answer.text();
  } catch (error) {
    throw error instanceof Refused ? error : new Refused(0, { description: "pqd does not answer." });
  } finally {
    end();
  }
  let parsed;
  try {
    parsed = parse(text);
  } catch {
    throw new Refused(answer.status, { description: text.slice(0, 300) });
  }
  if (!answer.ok) throw new Refused(answer.status, parsed.error);
  return parsed;
}

export const get = (at) => call("GET", at);

// watch has the answers to paths, and their changes, until the signal aborts. on gets the
// status and the answer of a path; told is whether the stream lives. What is too large for a
// stream is asked for once.
export async function watch(paths, signal, on, told) {
  for (let pause = 250; !signal.aborted; pause = Math.min(2 * pause, 5000)) {
    await seen();
    if (signal.aborted) return;
    let why = null; // the stream has no more, or none
    const hidden = new AbortController();
    const hide = () => document.hidden && hidden.abort();
    const waits = patience(signal, hidden.signal);
    document.addEventListener("visibilitychange", hide);
    try {
      const answer = await send("GET", `/v1/watch?${new URLSearchParams(paths.map((p) => ["path", p]))}`, undefined, waits.signal);
      if (!answer.ok) {
        const { error } = parse(await answer.text());
        throw new Refused(answer.status, error);
      }
      pause = 250;
      told(true);
      for await (const event of events(answer.body, waits.heard)) {
        if (event.status === 413) large(event.path, on, signal, told);
        else on(event.path, event.status, event.body);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (hidden.signal.aborted) continue;
      if (error instanceof Refused) why = error;
      if (why && why.status < 500 && why.status !== 429) return told(false, why);
    } finally {
      waits.end();
      document.removeEventListener("visibilitychange", hide);
    }
    if (!signal.aborted) told(false, why);
    await new Promise((wake) => setTimeout(wake, pause));
  }
}

// seen waits until somebody can see the page. A browser has six connections to a server, for
// all its tabs together, so tabs in the background have none.
const seen = () => new Promise((show) => {
  const look = () => {
    if (document.hidden) return;
    document.removeEventListener("visibilitychange", look);
    show();
  };
  document.addEventListener("visibilitychange", look);
  look();
});

async function large(at, on, signal, told) {
  try {
    const answer = await get(at);
    if (signal.aborted) return;
    on(at, 200, answer);
    told(true, new Refused(413, { description: "too large to be live" }));
  } catch (error) {
    if (!signal.aborted) on(at, error.status, { error: { description: error.message } });
  }
}

// events reads server-sent events. EventSource cannot show a token.
async function* events(body, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (let held = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    held += value;
    const parts = held.split("\n\n");
    held = parts.pop();
    for (const part of parts) if (part.startsWith("data: ")) yield parse(part.slice(6));
  }
}
