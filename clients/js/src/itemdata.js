// What an answer says about an item.
import { duration, shown } from "./duration.js";
import { integer } from "./integer.js";
import { text } from "./message.js";

/** @param {string} value */
export const time = (value) => {
  const date = new Date(value);
  if (!/^\d{4}-/.test(value) || Number.isNaN(date.getTime())) throw new Error(`${shown(value)}: expected a time`);
  return date;
};

/** @param {string} value */
export const small = (value) => {
  const n = integer(value);
  if (typeof n === "bigint") throw new Error(`${value}: expected a smaller number`);
  return n;
};

/** @param {string} value */
const plain = (value) => value;

/** @param {string} value */
export const milliseconds = (value) => duration(value, "the duration", { zero: true });

/**
 * The attempts of an item as answers show them.
 * @param {any[]} all
 * @returns {import("../index.js").Attempt[]}
 */
export const attemptsOf = (all) =>
  all.map((a) => ({ n: Number(a.n), start: a.start === undefined ? undefined : time(a.start), end: time(a.end), holder: a.holder ?? "", outcome: a.outcome, reason: a.reason ?? "" }));

// They say which item it is, and what its lease is.
const needed = ["PQ-Id", "PQ-Priority", "PQ-Deliveries", "PQ-Fence", "PQ-Key-Fence", "PQ-Lease-Expires"];

export class ItemData {
  /** @param {string} queue */
  constructor(queue) {
    this.queue = queue;
    this.id = "";
    /** @type {number | bigint} */
    this.priority = 0;
    this.key = "";
    /** @type {Uint8Array} */
    this.data = new Uint8Array(0);
    /** @type {Record<string, string[]>} */
    this.headers = Object.create(null);
    this.deliveries = 0;
    this.failures = 0;
    this.interruptions = 0;
    this.returns = 0;
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
    /** @type {import("../index.js").Explain | undefined} */
    this.explain = undefined;
    this.unique = "";
    this.uniqueUntil = "";
    /** In milliseconds; 0: its queue does not keep what becomes of it. */
    this.resultTtl = 0;
    this.cost = 1;
    /** @type {import("../index.js").Death | undefined} */
    this.dead = undefined;
    /** In milliseconds; 0: the queue has none. */
    this.backoff = 0;
    this.progress = "";
    /** @type {Date | undefined} */
    this.progressAt = undefined;
    this.holder = "";
    this.attempts = 0;
    /** @type {import("../index.js").Attempt[]} */
    this.lastAttempts = [];
    this.schedule = "";
    /** @type {Date | undefined} */
    this.scheduledAt = undefined;
    /** @type {import("../index.js").ItemSource | undefined} */
    this.source = undefined;
  }

  /**
   * Takes what a message says. It throws if the message does not say which item it has, or what its lease is.
   * @param {import("./message.js").Message} m
   */
  fill(m) {
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
    header("PQ-Failures", small, (v) => (this.failures = v));
    header("PQ-Interruptions", small, (v) => (this.interruptions = v));
    header("PQ-Returns", small, (v) => (this.returns = v));
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
    header("PQ-Explain", (v) => JSON.parse(v), (v) => (this.explain = v));
    header("PQ-Unique", plain, (v) => (this.unique = v));
    header("PQ-Unique-Until", plain, (v) => (this.uniqueUntil = v));
    header("PQ-Result-TTL", milliseconds, (v) => (this.resultTtl = v));
    header("PQ-Cost", small, (v) => (this.cost = v));
    header("PQ-Backoff", milliseconds, (v) => (this.backoff = v));
    header("PQ-Holder", plain, (v) => (this.holder = v));
    header("PQ-Progress", plain, (v) => (this.progress = v));
    header("PQ-Progress-At", time, (v) => (this.progressAt = v));
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
      const dead = { reason: "", origin: "", originId: "", at: undefined, deliveries: 0, interruptions: 0 };
      header("PQ-Dead-Reason", plain, (v) => (dead.reason = v));
      header("PQ-Origin", plain, (v) => (dead.origin = v));
      header("PQ-Origin-Id", plain, (v) => (dead.originId = v));
      header("PQ-Dead-At", time, (v) => (dead.at = v));
      header("PQ-Dead-Deliveries", small, (v) => (dead.deliveries = v));
      header("PQ-Dead-Interruptions", small, (v) => (dead.interruptions = v));
      this.dead = dead;
    }
  }

  string() {
    return text(this.data);
  }

  json() {
    return JSON.parse(this.string());
  }
}
