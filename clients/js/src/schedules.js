// Schedules of a queue: what they push, and when.
import { headers as natsHeaders } from "@nats-io/nats-core";
import { Call } from "./call.js";
import { duration, durationText } from "./duration.js";
import { unreadable } from "./errors.js";
import { count, mostCost, priorityText } from "./integer.js";
import { exact, readJSON, writeJSON } from "./json.js";
import { bytes } from "./message.js";
import { ask, requests } from "./named.js";
import { callOptions, checked, flag, word } from "./options.js";
import { headersOf, jsonOf, keyOf, payloadOf, pushed, timeOf, valueOf } from "./push.js";
import { checkName } from "./subjects.js";

const fields = ["spec", "zone", "item", "start", "end", "count", "overlap", "catchUp", "missed", "jitter", "paused"];

export const schedules = requests("schedule", known);

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} name
 * @param {import("../index.js").CallOptions} [given]
 */
export async function schedule(queue, name, given) {
  return known(queue, "schedule", await ask(queue, "schedule", "schedule", name, undefined, given));
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} name
 * @param {import("../index.js").ScheduleChange} change
 * @param {import("../index.js").CallOptions} [given]
 * @returns {Promise<Date[]>}
 */
export async function scheduleTimes(queue, name, change, given) {
  const answer = await ask(queue, "scheduleTimes", "schedule", name, changed("scheduleTimes", change), given);
  if (!Array.isArray(answer.times)) throw unreadable("scheduleTimes", queue.name, bytes(JSON.stringify(answer)));
  return answer.times.map((/** @type {string} */ at) => new Date(at));
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} name
 * @param {import("../index.js").ScheduleChange} change
 * @param {import("../index.js").CallOptions} [given]
 */
export async function setSchedule(queue, name, change, given) {
  return schedules.set(queue, name, changed("setSchedule", change), given);
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} name
 * @param {import("../index.js").ResumeScheduleOptions} [given]
 */
export async function resumeSchedule(queue, name, given) {
  const { from, ...options } = checked(given, "resumeSchedule", ["from", ...callOptions]);
  const body = from === undefined ? undefined : writeJSON({ from: word(from, "from", ["now"]) });
  return schedules.resume(queue, name, body, options);
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} name
 * @param {import("../index.js").RunScheduleOptions} [given]
 */
export async function runSchedule(queue, name, given) {
  const { msgId, ...options } = checked(given, "runSchedule", ["msgId", ...callOptions]);
  checkName("schedule", name);
  const id = valueOf(msgId, "msgId", 1024);
  const headers = natsHeaders();
  if (id !== undefined) headers.set("Nats-Msg-Id", id);
  const call = new Call({ op: "runSchedule", queue: queue.name, subject: queue.subject(`admin.schedule.${name}.run`), headers, repeatable: id !== undefined });
  const m = await call.send(queue.client, queue.client.deadline(options));
  return pushed(queue.name, read(queue, "runSchedule", m.data));
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} op
 * @param {Uint8Array} body
 */
function read(queue, op, body) {
  try {
    return readJSON(body);
  } catch (cause) {
    throw unreadable(op, queue.name, body, cause);
  }
}

/**
 * The fields of a schedule that a caller names, as JSON.
 * @param {string} op
 * @param {import("../index.js").ScheduleChange} given
 */
function changed(op, given) {
  if (given === undefined) throw new TypeError('the change is undefined: expected an object such as { spec: "@daily" }');
  const change = checked(given, op, fields);
  const bound = (/** @type {Date | null | undefined} */ at, /** @type {string} */ what) => (at === undefined || at === null ? at : timeOf(at, what));
  const long = (/** @type {number | string | undefined} */ value, /** @type {string} */ what) => (value === undefined ? undefined : durationText(duration(value, what, { zero: true })));
  return writeJSON({
    spec: change.spec,
    zone: change.zone,
    item: change.item === undefined ? undefined : itemOf(change.item),
    start: bound(change.start, "start"),
    end: bound(change.end, "end"),
    count: change.count,
    overlap: word(change.overlap, "overlap", ["skip", "one", "replace", "allow"]),
    catch_up: long(change.catchUp, "catchUp"),
    missed: word(change.missed, "missed", ["one", "all"]),
    jitter: long(change.jitter, "jitter"),
    paused: change.paused === undefined ? undefined : flag(change.paused, "paused"),
  });
}

/** @param {import("../index.js").ScheduleItem} given */
function itemOf(given) {
  const { payload: one, headers, priority, key, weight, ttl, cost } = checked(given, "an item", ["payload", "headers", "priority", "key", "weight", "ttl", "cost"]);
  const payload = jsonOf(one);
  const content = payload === undefined ? undefined : payloadOf(payload);
  /** @type {Record<string, string[]>} */
  const all = {};
  for (const [name, value] of headersOf(headers)) (all[name] ??= []).push(value);
  return {
    payload: typeof payload === "string" ? payload : undefined,
    payload_base64: content === undefined || typeof payload === "string" ? undefined : btoa(Array.from(content, (byte) => String.fromCharCode(byte)).join("")),
    headers: headers === undefined ? undefined : all,
    priority: priority === undefined ? undefined : BigInt(priorityText(priority)),
    key: keyOf(key),
    weight,
    ttl: ttl === undefined ? undefined : durationText(duration(ttl, "ttl")),
    cost: cost === undefined ? undefined : count(cost, "cost", mostCost),
  };
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} op
 * @param {any} s
 * @returns {import("../index.js").Schedule}
 */
function known(queue, op, s) {
  const time = (/** @type {string | undefined} */ at) => (at === undefined ? undefined : new Date(at));
  try {
    const { item } = s;
    return {
      name: String(s.name),
      spec: String(s.spec),
      zone: String(s.zone),
      item: item && {
        payload: typeof item.payload_base64 === "string" ? Uint8Array.from(atob(item.payload_base64), (c) => c.charCodeAt(0)) : (item.payload ?? ""),
        headers: item.headers,
        priority: item.priority === undefined ? undefined : exact(item.priority),
        key: item.key,
        weight: item.weight,
        ttl: item.ttl,
        cost: item.cost,
      },
      start: time(s.start),
      end: time(s.end),
      count: exact(s.count),
      overlap: s.overlap,
      catchUp: s.catch_up,
      missed: s.missed,
      jitter: s.jitter,
      paused: s.paused === true,
      next: time(s.next),
      due: time(s.due),
      last: time(s.last),
      done: s.done === true,
      full: s.full === true,
      counts: { fired: exact(s.counts.fired), missed: exact(s.counts.missed), overlapped: exact(s.counts.overlapped) },
      times: (s.times ?? []).map((/** @type {string} */ at) => new Date(at)),
    };
  } catch (cause) {
    throw unreadable(op, queue.name, bytes(JSON.stringify(s)), cause);
  }
}
