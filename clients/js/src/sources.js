// Sources of a queue: what feeds it.
import { shown } from "./duration.js";
import { unreadable } from "./errors.js";
import { sequence } from "./integer.js";
import { exact, writeJSON } from "./json.js";
import { bytes } from "./message.js";
import { requests } from "./named.js";
import { callOptions, checked, flag, word } from "./options.js";
import { timeOf } from "./push.js";

const fields = ["remote", "stream", "queue", "link", "mode", "filter", "start", "map", "batch", "paused"];

export const sources = requests("source", known);

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} name
 * @param {import("../index.js").SourceChange} change
 * @param {import("../index.js").CallOptions} [given]
 */
export async function setSource(queue, name, change, given) {
  return sources.set(queue, name, changed(change), given);
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
  return sources.resume(queue, name, body, options, body === undefined);
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
      stream: s.stream ?? "",
      queue: s.queue ?? "",
      link: s.link ?? "",
      mode: s.mode ?? "",
      filter: s.filter ?? [],
      start: typeof start !== "object" ? start : start.seq === undefined ? { time: new Date(start.time) } : { seq: exact(start.seq) },
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
