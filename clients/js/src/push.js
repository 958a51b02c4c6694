// Pushes: what an item is, as headers and bytes.
import { headers as natsHeaders } from "@nats-io/nats-core";
import { Call } from "./call.js";
import { bundle, maxBundle } from "./bundle.js";
import { duration, durationText, shown } from "./duration.js";
import { code, errorOf, PQError, unreadable } from "./errors.js";
import { count, mostCost, priorityText } from "./integer.js";
import { exact, readJSON } from "./json.js";
import { headersSize, randomToken } from "./mailbox.js";
import { bytes } from "./message.js";
import { callOptions, checked, flag, word } from "./options.js";

const tenYears = 87600 * 3600e3;
const longestResult = 168 * 3600e3;
const longestName = 128;
const mostWeight = 1000;
const longestValue = 1024;

export const itemOptions = ["priority", "headers", "key", "weight", "unique", "uniqueUntil", "onConflict", "msgId", "withoutMsgId", "delay", "notBefore", "ttl", "resultTtl", "cost"];

/** An item on its way. */
export class NewItem {
  /** @type {[string, string][]} */
  headers = [];

  /**
   * @param {unknown} payload
   * @param {import("../index.js").ItemOptions} options
   */
  constructor(payload, options) {
    this.payload = payloadOf(payload);
    /** @type {string | undefined} */
    this.priority = options.priority === undefined ? undefined : priorityText(options.priority);
    this.msgId = valueOf(options.msgId, "msgId", longestValue);
    this.unique = valueOf(options.unique, "unique", longestValue);
    /** Whether it gets an id if it has none. */
    this.once = !flag(options.withoutMsgId, "withoutMsgId");
    if (this.msgId !== undefined && !this.once) throw new TypeError("msgId together with withoutMsgId: expected one of them");
    this.#set("PQ-Key", keyOf(options.key));
    if (options.weight !== undefined) {
      if (options.key === undefined) throw new TypeError("weight without key: expected the key whose weight it is");
      this.#set("PQ-Weight", String(count(options.weight, "weight", mostWeight)));
    }
    this.#set("PQ-Unique", this.unique);
    this.#set("PQ-Unique-Until", word(options.uniqueUntil, "uniqueUntil", ["leased"]));
    this.#set("PQ-On-Conflict", word(options.onConflict, "onConflict", ["keep", "replace", "raise"]));
    if (this.unique === undefined && (options.uniqueUntil !== undefined || options.onConflict !== undefined)) {
      throw new TypeError("uniqueUntil or onConflict without unique: expected the value that they are about");
    }
    if (options.delay !== undefined && options.notBefore !== undefined) throw new TypeError("delay together with notBefore: expected one of them");
    if (options.delay !== undefined) this.#set("PQ-Delay", durationText(duration(options.delay, "delay", { zero: true, most: tenYears })));
    if (options.notBefore !== undefined) this.#set("PQ-Not-Before", timeOf(options.notBefore, "notBefore"));
    if (options.ttl !== undefined) this.#set("PQ-TTL", durationText(duration(options.ttl, "ttl", { most: tenYears })));
    if (options.resultTtl !== undefined) this.#set("PQ-Result-TTL", durationText(duration(options.resultTtl, "resultTtl", { most: longestResult })));
    if (options.cost !== undefined) this.#set("PQ-Cost", String(count(options.cost, "cost", mostCost)));
    this.headers.push(...headersOf(options.headers));
  }

  /**
   * @param {string} name
   * @param {string | undefined} value
   */
  #set(name, value) {
    if (value !== undefined) this.headers.push([name, value]);
  }
}

/**
 * @param {unknown} given
 * @param {string} [what]
 * @returns {Uint8Array}
 */
export function payloadOf(given, what = "the payload") {
  const payload = jsonOf(given, what);
  if (typeof payload === "string") {
    if (/\p{Surrogate}/u.test(payload)) throw new TypeError(`${what} is ${shown(payload)}: expected no half of a surrogate pair, which UTF-8 does not have`);
    return bytes(payload);
  }
  if (payload instanceof Uint8Array) return payload;
  throw new TypeError(`${what} is ${shown(payload)}: expected a string, a Uint8Array, or { json: a value }`);
}

/**
 * The text of a payload that is given as a value, and any other payload as it is.
 * @param {unknown} payload
 * @param {string} [what]
 */
export function jsonOf(payload, what = "the payload") {
  if (typeof payload !== "object" || payload === null || Object.keys(payload).join() !== "json") return payload;
  const { json } = /** @type {{json: unknown}} */ (payload);
  const text = JSON.stringify(json);
  if (text === undefined) throw new TypeError(`${what}'s json is ${shown(json)}: expected a value that JSON has`);
  return text;
}

/**
 * What a handler has returned, as the bytes of a result. It throws what JSON.stringify throws.
 * @param {unknown} value
 */
export function returned(value) {
  const text = typeof value === "string" || value instanceof Uint8Array ? value : JSON.stringify(value);
  if (text === undefined) throw new TypeError(`it is ${shown(value)}: expected bytes, a text, or a value that JSON has`);
  return payloadOf(text, "it");
}

/** A text that headers carry unchanged. */
const outerSpace = /^\s|\s$/;
const halfOfPair = /[\ud800-\udfff]/u;
// deno-lint-ignore no-control-regex
const control = /[\u0000-\u001f\u007f-\u009f]/;

/**
 * @param {unknown} value
 * @param {string} what
 * @param {number} most bytes
 * @returns {string | undefined}
 */
export function valueOf(value, what, most) {
  if (value === undefined) return undefined;
  if (typeof value !== "string" || value === "" || outerSpace.test(value) || /[\r\n\0]/.test(value) || halfOfPair.test(value) || bytes(value).length > most) {
    throw new TypeError(`${what} is ${shown(value)}: expected a text of 1 to ${most} bytes without line breaks, and without white space at its ends`);
  }
  return value;
}

/**
 * The name of a key, or of a holder.
 * @param {unknown} name
 * @param {string} what
 */
export function nameOf(name, what) {
  if (typeof name === "string" && control.test(name)) throw new TypeError(`${what} is ${shown(name)}: expected a text without control characters`);
  return valueOf(name, what, longestName);
}

/** @param {unknown} key */
export const keyOf = (key) => nameOf(key, "key");

/**
 * @param {unknown} time
 * @param {string} what
 */
export function timeOf(time, what) {
  if (time instanceof Date && !Number.isNaN(time.getTime()) && time.getUTCFullYear() >= 0 && time.getUTCFullYear() <= 9999) return time.toISOString();
  throw new TypeError(`${what} is ${shown(time)}: expected a Date`);
}

/**
 * @param {unknown} headers
 * @returns {[string, string][]}
 */
export function headersOf(headers) {
  if (headers === undefined) return [];
  if (typeof headers !== "object" || headers === null || Array.isArray(headers)) {
    throw new TypeError(`headers is ${shown(headers)}: expected an object such as { Season: "autumn" }`);
  }
  /** @type {[string, string][]} */
  const all = [];
  const entries = Symbol.iterator in headers ? /** @type {Iterable<[string, string[]]>} */ (headers) : Object.entries(headers);
  for (const [name, values] of entries) {
    if (name.startsWith("PQ-")) throw new TypeError(`header ${name}: expected the option that does the same`);
    if (name === "Nats-Msg-Id") throw new TypeError(`header ${name}: expected the option msgId`);
    if (!/^[!#$%&'*+\-.^_`|~A-Za-z0-9]+$/.test(name)) {
      throw new TypeError(`header ${shown(name)}: expected a name of printable ASCII, without spaces and without any of "()/,:;<=>?@[\\]{}`);
    }
    for (const value of Array.isArray(values) ? values : [values]) {
      if (typeof value !== "string" || outerSpace.test(value) || /[\r\n\0]/.test(value) || halfOfPair.test(value)) {
        throw new TypeError(`header ${name} is ${shown(value)}: expected a text without line breaks, and without white space at its ends`);
      }
      all.push([name, value]);
    }
  }
  return all;
}

/** @param {[string, string][]} all */
function inMessage(all) {
  const headers = natsHeaders();
  for (const [name, value] of all) headers.append(name, value);
  return headers;
}

/** How to read the answer to a push. */
class Reading {
  /** @param {string} queue */
  constructor(queue) {
    this.queue = queue;
  }

  /**
   * @param {Uint8Array} body
   * @returns {any}
   */
  answer(body) {
    let answer;
    try {
      answer = readJSON(body);
    } catch (cause) {
      throw unreadable("push", this.queue, body, cause);
    }
    if (answer.error) throw this.refusal(answer.error);
    return answer;
  }

  /** @param {any} error */
  refusal({ code: number, description, item, reason }) {
    return errorOf({ op: "push", queue: this.queue, code: Number(number) || code.unknownResult, text: String(description), item, reason: typeof reason === "string" ? reason : "" });
  }

  /**
   * @param {any} item
   * @param {Uint8Array} body
   * @param {boolean} own it may repeat an attempt of this client
   * @returns {import("../index.js").Pushed}
   */
  pushed(item, body, own) {
    try {
      if (typeof item.id !== "string" || item.id === "") throw new Error("fields are missing");
      return { id: item.id, seq: exact(item.seq), priority: exact(item.priority), duplicate: item.duplicate === true && !own, evicted: item.evicted === true };
    } catch (cause) {
      throw unreadable("push", this.queue, body, cause);
    }
  }
}

/**
 * What became of an item that another request than a push has pushed.
 * @param {string} queue
 * @param {any} answer
 */
export function pushed(queue, answer) {
  return new Reading(queue).pushed(answer, bytes(JSON.stringify(answer)), false);
}

/**
 * Pushes an item.
 * @param {import("./client.js").Client} client
 * @param {string} queue
 * @param {unknown} payload
 * @param {import("../index.js").PushOptions | undefined} given
 * @param {string} [settle] the ack subject of an item that the push acknowledges
 * @returns {Promise<import("../index.js").Pushed>}
 */
export async function push(client, queue, payload, given, settle) {
  const options = checked(given, "push", [...itemOptions, ...callOptions]);
  const item = new NewItem(payload, options);
  const subject = client.grammar.subject(queue, item.priority === undefined ? "push" : `push.${item.priority}`);
  if (settle !== undefined) item.headers.push(["PQ-Settle", settle]);
  const made = item.msgId === undefined && item.once; // a random id, so that a repetition is no second item
  const id = made ? randomToken() : item.msgId;
  if (id !== undefined) item.headers.push(["Nats-Msg-Id", id]);
  const call = new PushCall(client, queue, subject, item, id !== undefined);
  const answer = await client.inFlight(call, call.size, options, (deadline) => {
    if (settle === undefined) return client.lanes.send(pushes, call.lane, call, deadline);
    pushes.plain(call);
    return call.send(client, deadline);
  });
  if (item.priority === undefined) client.mixes(queue);
  const read = new Reading(queue);
  return read.pushed(answer.pushed ?? read.answer(answer.data), answer.data, made && (call.sent > 1 || item.unique === undefined));
}

/** Above this size a push goes alone. */
const largest = 16 << 10;

/** What is about the message, and not about the item. */
const trace = "Nats-Trace-Dest";

class PushCall extends Call {
  /**
   * @param {import("./client.js").Client} client
   * @param {string} queue
   * @param {string} subject
   * @param {NewItem} item
   * @param {boolean} repeatable
   */
  constructor(client, queue, subject, item, repeatable) {
    super({ op: "push", queue, subject, body: item.payload, repeatable });
    this.client = client;
    this.item = item;
    this.size = item.headers.reduce((size, [name, value]) => size + name.length + value.length + lineEnds, item.payload.length);
  }

  /** The lane that it goes in: those without an id are not repeated, so they are no part of a message that is. */
  get lane() {
    return `push ${this.queue} ${this.repeatable} ${this.client.mixed.has(this.queue) ? "" : (this.item.priority ?? "")}`;
  }
}

const lineEnds = ": \r\n".length;

/** @type {import("./lane.js").Kind} */
const pushes = {
  answer: 160,
  size: (/** @type {PushCall} */ { size, item }) => (size > largest || item.headers.some(([name]) => name === trace) ? Infinity : size),
  plain: (/** @type {PushCall} */ call) => {
    if (call.item.headers.length > 0) call.headers ??= inMessage(call.item.headers);
  },
  bundle: (/** @type {[PushCall, ...PushCall[]]} */ calls) => {
    const [{ client, queue, subject, repeatable }] = calls;
    const same = calls.every((call) => call.subject === subject);
    const items = calls.map(({ item: { headers, payload, priority } }) => ({ headers: same || priority === undefined ? headers : [.../** @type {[string, string][]} */ ([["PQ-Priority", priority]]), ...headers], payload }));
    const headers = inMessage([["PQ-Bundle", String(items.length)], ["PQ-Each", "true"]]);
    return new Call({ op: "push", queue, subject: same ? subject : client.grammar.subject(queue, "push"), headers, body: bundle(items), repeatable });
  },
  read: (m, { queue }, calls) => {
    const read = new Reading(queue);
    const { items } = read.answer(m.data);
    if (!Array.isArray(items) || items.length !== calls.length) throw unreadable("push", queue, m.data);
    return items.map((item) => (item?.error ? { error: read.refusal(item.error) } : { value: { pushed: item, data: m.data } }));
  },
  denied: ({ mixed }, { queue }) => {
    mixed.delete(queue);
    return true;
  },
};

/**
 * Pushes many items in one message.
 * @param {import("./client.js").Client} client
 * @param {string} queue
 * @param {readonly import("../index.js").NewItem[]} all
 * @param {import("../index.js").CallOptions | undefined} given
 * @returns {Promise<import("../index.js").Pushed[]>}
 */
export async function pushMany(client, queue, all, given) {
  const options = checked(given, "pushMany", callOptions);
  const subject = client.grammar.subject(queue, "push");
  if (!Array.isArray(all)) throw new TypeError(`the items are ${shown(all)}: expected an array of objects such as { payload: "x", priority: 1 }`);
  if (all.length === 0) return [];
  if (all.length > maxBundle) throw new TypeError(`${all.length} items: expected at most ${maxBundle}`);
  const items = all.map(readNewItem);
  // With an id of its own an item needs none of the bundle. Where one is to have none, a
  // repetition might add it twice.
  const repeatable = items.every((item) => item.msgId !== undefined || item.once);
  const made = repeatable && items.some((item) => item.msgId === undefined);
  const headers = inMessage([["PQ-Bundle", String(items.length)], .../** @type {[string, string][]} */ (made ? [["Nats-Msg-Id", randomToken()]] : [])]);
  const body = bundle(items);
  const call = new Call({ op: "push", queue, subject, headers, body, repeatable });
  const answer = await client.inFlight(call, body.length + headersSize(headers), options, (deadline) => call.send(client, deadline));
  const read = new Reading(queue);
  const { items: results } = read.answer(answer.data);
  if (!Array.isArray(results) || results.length !== items.length) throw unreadable("push", queue, answer.data);
  return results.map((result) => read.pushed(result, answer.data, made && call.sent > 1));
}

/**
 * @param {import("../index.js").NewItem} given
 * @param {number} index
 */
function readNewItem(given, index) {
  try {
    const { payload, ...options } = checked(given, "an item", ["payload", ...itemOptions]);
    const item = new NewItem(payload, options);
    if (item.priority !== undefined) item.headers.push(["PQ-Priority", item.priority]);
    if (item.msgId !== undefined) item.headers.push(["Nats-Msg-Id", item.msgId]);
    return item;
  } catch (err) {
    throw err instanceof TypeError && !(err instanceof PQError) ? new TypeError(`item ${index}: ${err.message}`) : err;
  }
}
