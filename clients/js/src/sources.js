// Sources of a queue: the streams that feed it.
import { shown } from "./duration.js";
import { unreadable } from "./errors.js";
import { sequence } from "./integer.js";
import { exact, writeJSON } from "./json.js";
import { bytes } from "./message.js";
import { ask, pages } from "./named.js";
import { callOptions, checked, flag, word } from "./options.js";
import { timeOf } from "./push.js";
import { checkName } from "./subjects.js";

const fields = ["remote", "stream", "mode", "filter", "start", "map", "batch", "paused"];

/**
 * @param {import("./queue.js").Queue} queue
 * @param {import("../index.js").SourcesOptions} [given]
 */
export async function* sources(queue, given) {
  for await (const s of pages(queue, "sources", given, (after) => checkName("source", after))) yield known(queue, "sources", s);
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} name
 * @param {import("../index.js").CallOptions} [given]
 */
export async function source(queue, name, given) {
  return known(queue, "source", await ask(queue, "source", "admin.source", name, undefined, given));
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} name
 * @param {import("../index.js").SourceChange} change
 * @param {import("../index.js").CallOptions} [given]
 */
export async function setSource(queue, name, change, given) {
  return known(queue, "setSource", await ask(queue, "setSource", "admin.source", name, changed(change), given));
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} name
 * @param {import("../index.js").CallOptions} [given]
 */
export async function pauseSource(queue, name, given) {
  return known(queue, "pauseSource", await ask(queue, "pauseSource", "admin.source", name, undefined, given, ".pause"));
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} name
 * @param {import("../index.js").ResumeSourceOptions} [given]
 */
export async function resumeSource(queue, name, given) {
  const { fromSeq, fromTime, skip, accept, ...options } = checked(given, "resumeSource", ["fromSeq", "fromTime", "skip", "accept", ...callOptions]);
  const from = {
    from_seq: fromSeq === undefined ? undefined : sequence(fromSeq, "fromSeq"),
    from_time: fromTime === undefined ? undefined : timeOf(fromTime, "fromTime"),
    skip: flag(skip, "skip") || undefined,
    accept: flag(accept, "accept") || undefined,
  };
  const chosen = Object.values(from).filter((value) => value !== undefined).length;
  if (chosen > 1) throw new TypeError("expected one of fromSeq, fromTime, skip and accept");
  const body = chosen === 0 ? undefined : writeJSON(from);
  // Where it goes on from would be told twice, and meanwhile it has gone on.
  return known(queue, "resumeSource", await ask(queue, "resumeSource", "admin.source", name, body, options, ".resume", body === undefined));
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} name
 * @param {import("../index.js").CallOptions} [given]
 */
export async function deleteSource(queue, name, given) {
  await ask(queue, "deleteSource", "admin.source", name, undefined, given, ".delete");
}

/**
 * The fields of a source that a caller names, as JSON.
 * @param {import("../index.js").SourceChange} given
 */
function changed(given) {
  if (given === undefined) throw new TypeError('the change is undefined: expected an object such as { remote: "hub", stream: "ORDERS" }');
  const change = checked(given, "setSource", fields);
  return writeJSON({ ...change, mode: word(change.mode, "mode", ["copy", "take"]), start: startOf(change.start), paused: change.paused === undefined ? undefined : flag(change.paused, "paused") });
}

/** @param {import("../index.js").SourceChange["start"]} start */
function startOf(start) {
  if (typeof start !== "object") return word(start, "start", ["first", "new"]);
  const { seq, time } = checked(/** @type {{seq?: number | bigint, time?: Date}} */ (start), "start", ["seq", "time"]);
  if ((seq === undefined) === (time === undefined)) throw new TypeError(`start is ${shown(start)}: expected seq or time`);
  return time === undefined ? { seq: sequence(seq, "seq") } : { time: timeOf(time, "time") };
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} op
 * @param {any} s
 * @returns {import("../index.js").Source}
 */
function known(queue, op, s) {
  const time = (/** @type {string | undefined} */ at) => (at === undefined ? undefined : new Date(at));
  try {
    const { start } = s;
    return {
      name: String(s.name),
      remote: String(s.remote),
      stream: String(s.stream),
      mode: s.mode,
      filter: s.filter ?? [],
      start: typeof start === "string" ? /** @type {"first"} */ (start) : start.seq === undefined ? { time: new Date(start.time) } : { seq: exact(start.seq) },
      map: s.map ?? {},
      batch: Number(exact(s.batch)),
      paused: s.paused === true,
      state: s.state,
      reason: s.reason ?? "",
      since: time(s.since),
      seq: exact(s.seq),
      time: time(s.time),
      last: exact(s.last),
      lag: exact(s.lag),
      runner: s.runner ?? "",
      counts: { delivered: exact(s.counts.delivered), skipped: exact(s.counts.skipped), poisoned: exact(s.counts.poisoned) },
    };
  } catch (cause) {
    throw unreadable(op, queue.name, bytes(JSON.stringify(s)), cause);
  }
}
