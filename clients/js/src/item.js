// An item as a bridge answered it, and its lease.
import { Call } from "./call.js";
import { duration, durationText, nanoseconds, shown } from "./duration.js";
import { code, errorOf, LeaseLostError, mayRepeat, NotLeasedError, PQError, SettledError, unreadable } from "./errors.js";
import { hold } from "./hold.js";
import { integer } from "./integer.js";
import { writeJSON } from "./json.js";
import { bytes, text } from "./message.js";
import { abortSignal, callOptions, checked } from "./options.js";
import { push } from "./push.js";
import { next } from "./take.js";

/** @param {string} value */
const time = (value) => {
  const date = new Date(value);
  if (!/^\d{4}-/.test(value) || Number.isNaN(date.getTime())) throw new Error(`${shown(value)}: expected a time`);
  return date;
};

/** @param {string} value */
const small = (value) => {
  const n = integer(value);
  if (typeof n === "bigint") throw new Error(`${value}: expected a smaller number`);
  return n;
};

/** @param {string} value */
const plain = (value) => value;

/** @param {string} value */
const milliseconds = (value) => duration(value, "the duration", { zero: true });

/**
 * The attempts of an item as answers show them.
 * @param {any[]} all
 * @returns {import("../index.js").Attempt[]}
 */
export const attemptsOf = (all) =>
  all.map((a) => ({ n: Number(a.n), start: a.start === undefined ? undefined : time(a.start), end: time(a.end), holder: a.holder ?? "", outcome: a.outcome, reason: a.reason ?? "" }));

// They say which item it is, and what its lease is.
const needed = ["PQ-Id", "PQ-Priority", "PQ-Deliveries", "PQ-Fence", "PQ-Key-Fence", "PQ-Lease-Expires"];

/** How much of a reason is sent. */
const longestReason = 1024;

/**
 * The beginning of a reason that a settlement has room for.
 * @param {string} reason
 */
const cut = (reason) => new TextDecoder().decode(bytes(reason).subarray(0, longestReason), { stream: true }); // drops half a character

const tenYears = 87600 * 3600e3;

/**
 * Whether the reason for which a repeated settlement was refused means that an earlier attempt
 * took effect and its answer was lost.
 * @param {string} op
 * @param {string} reason
 */
function held(op, reason) {
  if (op === "ack" || op === "term") return reason === "gone";
  return op === "nak" || op === "giveBack"; // the item is back in either case
}

export class Item {
  #queue;
  #ack;
  #settled = false;

  /**
   * @param {import("./queue.js").Queue} queue
   * @param {string} ack subject that settles the lease; "" without one
   */
  constructor(queue, ack) {
    this.#queue = queue;
    this.#ack = ack;
    this.queue = queue.name;
    this.id = "";
    /** @type {number | bigint} */
    this.priority = 0;
    this.key = "";
    /** @type {Uint8Array} */
    this.data = new Uint8Array(0);
    /** @type {Record<string, string[]>} */
    this.headers = Object.create(null);
    this.deliveries = 0;
    /** @type {Date | undefined} */
    this.pushed = undefined;
    this.pending = 0;
    /** @type {number | bigint} */
    this.fence = 0;
    /** @type {number | bigint} */
    this.keyFence = 0;
    /** @type {Date | undefined} */
    this.leaseExpires = undefined;
    /** @type {"" | "ready" | "leased" | "delayed"} */
    this.state = "";
    this.held = false;
    /** @type {Date | undefined} */
    this.notBefore = undefined;
    /** @type {Date | undefined} */
    this.expires = undefined;
    this.waitsFor = "";
    this.keyAhead = 0;
    this.unique = "";
    this.uniqueUntil = "";
    /** @type {import("../index.js").Death | undefined} */
    this.dead = undefined;
    /** In milliseconds; 0: the queue has none. */
    this.backoff = 0;
    this.holder = "";
    this.attempts = 0;
    /** @type {import("../index.js").Attempt[]} */
    this.lastAttempts = [];
    this.schedule = "";
    /** @type {Date | undefined} */
    this.scheduledAt = undefined;
    /** @type {import("../index.js").ItemSource | undefined} */
    this.source = undefined;
    /** How long the lease was asked for, in milliseconds; 0: the queue decides. */
    this.leaseTerm = 0;
  }

  /**
   * An item that can only be settled.
   * @param {import("./queue.js").Queue} queue
   * @param {string} ack
   */
  static attached(queue, ack) {
    return new Item(queue, ack);
  }

  /**
   * Reads an answer that is an item.
   * @param {import("./queue.js").Queue} queue
   * @param {import("./message.js").Message} m
   * @param {string} op
   */
  static read(queue, m, op) {
    const item = new Item(queue, queue.client.acks.of(queue.name, m));
    try {
      if (!item.leased && (m.reply !== "" || m.headers.has("PQ-Ack"))) {
        throw new Error(`PQ-Ack is ${shown(m.get("PQ-Ack"))}, the reply subject ${shown(m.reply)}: expected one that settles a lease of queue ${queue.name}`);
      }
      item.#read(m);
    } catch (cause) {
      throw unreadable(op, queue.name, m.data, cause);
    }
    return item;
  }

  /** @param {import("./message.js").Message} m */
  #read(m) {
    this.data = m.data;
    for (const [name, values] of m.headers) {
      if (!name.startsWith("PQ-") && name !== "Nats-Time-Stamp") this.headers[name] = values;
    }
    /**
     * @template T
     * @param {string} name
     * @param {(value: string) => T} read
     * @param {(value: T) => void} set
     */
    const header = (name, read, set) => {
      const values = m.headers.get(name);
      if (!values) return;
      try {
        if (values.length !== 1) throw new Error(`header ${name} occurs ${values.length} times: expected once`);
        set(read(/** @type {string} */ (values[0])));
      } catch (cause) {
        if (needed.includes(name)) throw cause; // one that only informs must not cost the item
      }
    };
    header("PQ-Id", plain, (v) => (this.id = v));
    header("PQ-Priority", integer, (v) => (this.priority = v));
    header("PQ-Key", plain, (v) => (this.key = v));
    header("PQ-Deliveries", small, (v) => (this.deliveries = v));
    header("Nats-Time-Stamp", time, (v) => (this.pushed = v));
    header("PQ-Num-Pending", small, (v) => (this.pending = v));
    header("PQ-Fence", integer, (v) => (this.fence = v));
    header("PQ-Key-Fence", integer, (v) => (this.keyFence = v));
    header("PQ-Lease-Expires", time, (v) => (this.leaseExpires = v));
    header("PQ-State", plain, (v) => (this.state = /** @type {"ready"} */ (v)));
    header("PQ-Held", (v) => v === "true", (v) => (this.held = v));
    header("PQ-Not-Before", time, (v) => (this.notBefore = v));
    header("PQ-Expires", time, (v) => (this.expires = v));
    header("PQ-Waits-For", plain, (v) => (this.waitsFor = v));
    header("PQ-Key-Ahead", small, (v) => (this.keyAhead = v));
    header("PQ-Unique", plain, (v) => (this.unique = v));
    header("PQ-Unique-Until", plain, (v) => (this.uniqueUntil = v));
    header("PQ-Backoff", milliseconds, (v) => (this.backoff = v));
    header("PQ-Holder", plain, (v) => (this.holder = v));
    header("PQ-Attempts", (v) => (v.startsWith("[") ? attemptsOf(JSON.parse(v)) : small(v)), (v) => {
      if (typeof v !== "number") this.lastAttempts = v;
      this.attempts = typeof v === "number" ? v : (v.at(-1)?.n ?? 0);
    });
    header("PQ-Schedule", plain, (v) => (this.schedule = v));
    header("PQ-Scheduled-At", time, (v) => (this.scheduledAt = v));
    if (m.headers.has("PQ-Source")) {
      /** @type {import("../index.js").ItemSource} */
      const source = { name: "", subject: "", seq: 0, time: undefined, msgId: "", id: "" };
      header("PQ-Source", plain, (v) => (source.name = v));
      header("PQ-Source-Subject", plain, (v) => (source.subject = v));
      header("PQ-Source-Seq", integer, (v) => (source.seq = v));
      header("PQ-Source-Time", time, (v) => (source.time = v));
      header("PQ-Source-Msg-Id", plain, (v) => (source.msgId = v));
      header("PQ-Source-Id", plain, (v) => (source.id = v));
      this.source = source;
    }
    if (m.headers.has("PQ-Origin") || m.headers.has("PQ-Dead-Reason")) {
      /** @type {import("../index.js").Death} */
      const dead = { reason: "", origin: "", originId: "", at: undefined, deliveries: 0 };
      header("PQ-Dead-Reason", plain, (v) => (dead.reason = v));
      header("PQ-Origin", plain, (v) => (dead.origin = v));
      header("PQ-Origin-Id", plain, (v) => (dead.originId = v));
      header("PQ-Dead-At", time, (v) => (dead.at = v));
      header("PQ-Dead-Deliveries", small, (v) => (dead.deliveries = v));
      this.dead = dead;
    }
  }

  get leased() {
    return this.#ack !== "";
  }

  get ackSubject() {
    return this.#ack;
  }

  get settled() {
    return this.#settled;
  }

  string() {
    return text(this.data);
  }

  json() {
    return JSON.parse(this.string());
  }

  /** @param {import("../index.js").CallOptions} [given] */
  async ack(given) {
    const options = checked(given, "ack", callOptions);
    await this.#once(() => this.#send("ack", "+ACK", options));
  }

  /**
   * Acknowledges in a message with others.
   * @param {import("./settlements.js").Settlements} together
   * @param {import("../index.js").CallOptions} options
   */
  async ackWith(together, options) {
    await this.#once(async () => {
      const { error, open } = await together.add(`${this.#queue.client.acks.written(this.#ack)} +ACK`);
      if (error && mayRepeat(error, true)) return void (await this.#send("ack", "+ACK", options, open || error.code === code.unknownResult));
      if (error && !(open && error instanceof LeaseLostError && held("ack", error.reason))) throw error;
    });
  }

  /** @param {import("../index.js").NakOptions} [given] */
  async nak(given) {
    const { delay, reason = "", ...options } = checked(given, "nak", ["delay", "reason", ...callOptions]);
    const ms = delay === undefined ? undefined : duration(delay, "delay", { zero: true, most: tenYears });
    if (typeof reason !== "string") throw new TypeError(`the reason is ${shown(reason)}: expected a text`);
    const how = reason !== "" ? ` ${writeJSON({ delay: ms === undefined ? undefined : BigInt(nanoseconds(ms)), reason: cut(reason) })}` : ms === undefined ? "" : ` ${durationText(ms)}`;
    await this.#once(() => this.#send("nak", `-NAK${how}`, options));
  }

  /**
   * @param {string} [reason]
   * @param {import("../index.js").CallOptions} [given]
   */
  async giveBack(reason = "", given) {
    const options = checked(given, "giveBack", callOptions);
    if (typeof reason !== "string") throw new TypeError(`the reason is ${shown(reason)}: expected a text`);
    await this.#once(() => this.#send("giveBack", `+BACK ${cut(reason)}`.trimEnd(), options));
  }

  /**
   * @param {string} [reason]
   * @param {import("../index.js").CallOptions} [given]
   */
  async term(reason = "", given) {
    const options = checked(given, "term", callOptions);
    if (typeof reason !== "string") throw new TypeError(`the reason is ${shown(reason)}: expected a text`);
    await this.#once(() => this.#send("term", `+TERM ${cut(reason)}`.trimEnd(), options));
  }

  /** @param {import("../index.js").CallOptions} [given] */
  async extend(given) {
    const options = checked(given, "extend", callOptions);
    if (this.#settled) throw new SettledError();
    const m = await this.#send("extend", "+WPI", options);
    const until = m?.get("PQ-Lease-Expires");
    if (until) this.leaseExpires = time(until);
  }

  /** @param {{signal?: AbortSignal}} [given] */
  hold(given) {
    return hold(this, abortSignal(checked(given, "hold", ["signal"]).signal));
  }

  /**
   * @param {import("../index.js").NextOptions} [given]
   * @returns {Promise<Item | null>}
   */
  async ackNext(given) {
    return this.#once(() => next(this.#queue, this.#ack, this.leaseTerm, given));
  }

  /**
   * @param {import("./queue.js").Queue} to
   * @param {unknown} payload
   * @param {import("../index.js").PushOptions} [options]
   */
  async handOver(to, payload, options) {
    if (!this.leased) throw new NotLeasedError();
    if (typeof to?.name !== "string" || to.client === undefined) throw new TypeError(`the queue is ${shown(to)}: expected one of client.queue()`);
    const lease = this.#queue.client.acks.written(this.#ack);
    return this.#once(() => push(to.client, to.name, payload, options, lease));
  }

  /**
   * Does what ends the lease, unless this object has ended it.
   * @template T
   * @param {() => Promise<T>} end
   */
  async #once(end) {
    if (!this.leased) throw new NotLeasedError();
    if (this.#settled) throw new SettledError();
    this.#settled = true;
    try {
      return await end();
    } catch (err) {
      if (!(err instanceof LeaseLostError)) this.#settled = false; // the caller may try again
      throw err;
    }
  }

  /**
   * Sends a settlement. It is undefined if an earlier attempt took effect.
   * @param {string} op
   * @param {string} body
   * @param {import("../index.js").CallOptions} options
   * @param {boolean} [open] an attempt in another message may have taken effect
   */
  async #send(op, body, options, open = false) {
    if (!this.leased) throw new NotLeasedError();
    const call = new Call({ op, queue: this.queue, subject: this.#ack, body: bytes(body), repeatable: true });
    try {
      return await call.send(this.#queue.client, this.#queue.client.deadline(options));
    } catch (err) {
      if (err instanceof LeaseLostError && (open || call.open) && held(op, err.reason)) return undefined;
      throw err;
    }
  }
}

/**
 * The error of a lease that could not be extended in time.
 * @param {Item} item
 * @param {unknown} cause
 * @returns {PQError}
 */
export function notExtended(item, cause) {
  return errorOf({ op: "extend", queue: item.queue, code: code.leaseLost, reason: "expired", text: "the lease could not be extended in time", cause });
}

/**
 * How long to wait between two extensions of a lease, and how long after the last one it counts
 * as lost: a lost message or a restart of the bridge must not end it.
 * @param {Item} item
 */
export function extendInterval(item) {
  const parts = 3;
  if (item.leaseTerm > 0) return { every: item.leaseTerm / parts, lasts: item.leaseTerm };
  // Only the bridge knows how long the lease is: the time that is left by the clock of this
  // machine may be wrong.
  const seems = (item.leaseExpires?.getTime() ?? 0) - Date.now();
  const every = Math.min(Math.max(seems / parts, 300), 5000);
  return { every, lasts: Math.max(seems, every * parts) };
}
