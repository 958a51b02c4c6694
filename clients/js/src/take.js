// Pops and peeks, the pop behind an acknowledgement, and what else may wait.
import { reads } from "./again.js";
import { Answers } from "./answers.js";
import { Bell, now } from "./bell.js";
import { ended, late, longer, notSentFor } from "./call.js";
import { duration, nanoseconds } from "./duration.js";
import { code, denial, inDoubt, LeaseLostError, EmptyError, mayRepeat, PQError, refusalIn, unreadable } from "./errors.js";
import { holderOf } from "./holder.js";
import { count, priorityText } from "./integer.js";
import { writeJSON } from "./json.js";
import { randomToken } from "./mailbox.js";
import { bytes } from "./message.js";
import { callOptions, checked, flag, word } from "./options.js";
import { valueOf } from "./push.js";
import { Retry } from "./retry.js";

/** What one request may wait; a longer wait takes several. */
export const longestWait = 110_000;
const longestLease = 12 * 3600e3;

/** Leaves time for the answer to arrive before the deadline. An item that arrives later is lost, or leased in vain. */
const margin = 100;

const selection = ["min", "max", "wait"];
const popOptions = ["end", "lease", "holder", ...selection, "popId", "repeatable", ...callOptions];
const peekOptions = ["end", ...selection, ...callOptions];
const nextOptions = ["lease", "holder", ...selection, ...callOptions];
export const many = ["maxBytes"];

/** @typedef {import("./item.js").Item} Item */

/**
 * Makes what was asked for, such as an item, of an answer. term: of the lease that was asked for, in milliseconds.
 * @template T
 * @typedef {(m: import("./message.js").Message, term: number) => T} Reader
 */

/**
 * @param {import("./queue.js").Queue} queue
 * @param {"pop" | "peek"} op
 * @param {number} batch how many items; 0: a single one
 * @param {import("../index.js").PopManyOptions | undefined} given
 * @param {Reader<Item>} read
 * @returns {Promise<Item[]>}
 */
export async function take(queue, op, batch, given, read) {
  return taking(queue, op, batch, given, read).run();
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {"pop" | "peek"} op
 * @param {number} batch
 * @param {import("../index.js").PopManyOptions | undefined} given
 * @param {Reader<Item>} read
 */
export function taking(queue, op, batch, given, read) {
  const names = [...(op === "pop" ? popOptions : peekOptions), ...(batch > 0 ? many : [])];
  const options = checked(given, batch > 0 ? `${op}Many` : op, names);
  const end = word(options.end, "end", ["min", "max"]) ?? "min";
  return new Taking(queue, op, queue.subject(`${op}.${end}`), batch, options, read);
}

/**
 * Acknowledges a lease and pops the next item. It is null if there is none; the acknowledgement
 * has taken effect all the same.
 * @param {import("./queue.js").Queue} queue
 * @param {string} ack
 * @param {number} term of the lease, in milliseconds
 * @param {import("../index.js").NextOptions | undefined} given
 * @param {Reader<Item>} read
 * @param {import("@nats-io/nats-core").MsgHdrs} [headers] of the acknowledgement
 */
export async function next(queue, ack, term, given, read, headers) {
  const options = checked(given, "ackNext", nextOptions);
  if (options.wait !== undefined) duration(options.wait, "wait", { zero: true, most: longestWait });
  const taking = new Taking(queue, "ackNext", ack, 0, { ...options, repeatable: true }, read);
  taking.term ||= term;
  taking.headers = headers;
  try {
    return (await taking.run())[0] ?? null;
  } catch (err) {
    if (err instanceof EmptyError) return null;
    // An earlier attempt has settled the lease and found nothing, or another holder has.
    if (err instanceof LeaseLostError && err.reason === "gone" && taking.open) return null;
    throw err;
  }
}

/**
 * A pop or a peek under way, or what else may wait.
 * @template T
 */
export class Taking {
  sent = 0;
  /** What one request may wait, in milliseconds. */
  longest = longestWait;
  /** Whether an attempt without an answer may still be under way. */
  open = false;
  /** Whether each item comes in a message of its own. */
  #single = false;
  #bundled = false;
  #bell = new Bell();

  /**
   * @param {import("./queue.js").Queue} queue
   * @param {"pop" | "peek" | "ackNext" | "result"} op
   * @param {string} subject
   * @param {number} batch
   * @param {import("../index.js").PopManyOptions} options
   * @param {Reader<T>} read
   * @param {import("./bell.js").Deadline} [deadline] of more than this one
   */
  constructor(queue, op, subject, batch, options, read, deadline) {
    this.client = queue.client;
    this.read = read;
    this.queue = queue.name;
    this.op = op;
    this.subject = subject;
    this.batch = batch;
    this.wait = options.wait === undefined ? 0 : duration(options.wait, "wait", { zero: true });
    this.term = options.lease === undefined ? 0 : duration(options.lease, "lease", { most: longestLease });
    const popId = valueOf(options.popId, "popId", 1024);
    if (popId !== undefined && options.repeatable !== undefined) throw new TypeError("popId together with repeatable: expected one of them");
    /** Whether the id of the pop, if it has one, is the client's own. */
    this.made = flag(options.repeatable, "repeatable");
    this.fields = {
      lease: options.lease === undefined ? undefined : nanoseconds(this.term),
      confirm: /** @type {number | undefined} */ (undefined),
      min: options.min === undefined ? undefined : BigInt(priorityText(options.min, "min")),
      max: options.max === undefined ? undefined : BigInt(priorityText(options.max, "max")),
      holder: holderOf(options.holder),
      max_bytes: options.maxBytes === undefined ? undefined : count(options.maxBytes, "maxBytes"),
      msg_id: popId ?? (this.made ? randomToken() : undefined),
    };
    this.repeatable = reads.has(op) || this.fields.msg_id !== undefined;
    // Nor does it harm to ask twice for a lease: what comes twice is given back.
    this.onceMore = this.repeatable || this.term > 0;
    /** How long to wait for the answer to what cannot be asked again, and does not wait for an item. */
    this.silence = Infinity;
    /** @type {import("./absence.js").Absence | undefined} what says for how long nothing answers */
    this.absence = undefined;
    /** @type {import("@nats-io/nats-core").MsgHdrs | undefined} */
    this.headers = undefined;
    this.deadline = deadline ?? this.client.deadline(options, this.wait);
    this.answers = new Answers(this.client.mailbox, this.#bell, this.wait > 0);
  }

  /**
   * Leases what would be popped for good, until it is acknowledged.
   * @param {number} ms
   */
  confirm(ms) {
    this.fields.confirm = nanoseconds(ms);
    this.onceMore = true;
  }

  /** Repeats the request until it gets items, or the time is up. */
  async run() {
    try {
      return await this.#run();
    } finally {
      this.answers.close();
    }
  }

  async #run() {
    const { patience: limits } = this.client;
    const [retry, early] = [new Retry(), new Retry()];
    const started = now();
    /** @type {PQError | undefined} */
    let refusal;
    for (let patience = this.wait > 0 ? late(limits) : limits.attempt; ; ) {
      if (this.deadline.over) throw this.#doubt(ended(this, refusal, this.deadline.cause));
      const left = this.#left(started);
      const expires = Math.min(left, this.longest);
      // What ends this pop without an item has to end its earlier attempts, too. As long as it
      // goes on afterwards, another attempt may pop the item.
      const repeat = this.open && this.fields.msg_id !== undefined && left <= longestWait;
      const wait = !this.repeatable && this.wait === 0 ? this.silence : expires + patience;
      /** @type {T[] | undefined} */
      let items;
      /** @type {PQError} */
      let e;
      const asked = now();
      try {
        items = await this.#attempt(expires, repeat, wait, refusal);
        if (items.length > 0) {
          this.absence?.answered();
          return items;
        }
        const { broken, denied } = this.answers;
        this.open ||= !denied?.certain;
        if (denied) throw denial(this, denied.cause);
        if (broken || this.deadline.over) throw ended(this, refusal, broken ?? this.deadline.cause);
        if (!this.repeatable && !(this.onceMore && this.answers.lost)) throw ended(this, undefined, new Error("no answer arrived in time"));
        patience = longer(patience);
        continue;
      } catch (err) {
        if (!(err instanceof Refusal)) throw this.#doubt(err);
        e = err.why;
      }
      this.absence?.refused(e);
      if (this.#bundled && e.code === code.tooLarge) {
        this.#single = true; // an item fits into no bundle; nothing was done
        continue;
      }
      if (e.code === code.timeout && this.op !== "ackNext" && this.#left(started) > margin && !(repeat && !this.made)) {
        if (repeat) [this.fields.msg_id, this.open] = [randomToken(), false]; // the old one finds nothing any more
        early.allowed(0);
        if (now() - asked > margin || (await early.wait(this.deadline))) continue;
      }
      refusal = e;
      this.open ||= e.code === code.unknownResult && e.cause === undefined;
      if (!mayRepeat(e, this.repeatable) || !retry.allowed(limits.retryFor) || !(await retry.wait(this.deadline, e))) throw this.#doubt(e);
    }
  }

  /** How much longer the pop may wait for an item. @param {number} started */
  #left(started) {
    if (this.wait === 0) return 0;
    const until = this.deadline.left;
    return Math.max(Math.min(this.wait - (now() - started), until - Math.min(margin, until / 2)), 1);
  }

  /** @param {unknown} err */
  #doubt(err) {
    return reads.has(this.op) ? err : inDoubt(err, this.open);
  }

  /**
   * An attempt.
   * @param {number} expires
   * @param {boolean} repeat
   * @returns {{headers?: import("@nats-io/nats-core").MsgHdrs, body: Uint8Array}}
   */
  written(expires, repeat) {
    const size = this.batch > 0 ? { [this.#bundled ? "bundle" : "batch"]: this.batch } : {};
    const fields = { ...this.fields, ...size, expires: expires > 0 ? nanoseconds(expires) : undefined, repeat: repeat || undefined };
    const body = Object.values(fields).some((value) => value !== undefined) ? writeJSON(fields) : "";
    return { headers: this.headers, body: bytes(this.op === "ackNext" ? `+NXT ${body}`.trimEnd() : body) };
  }

  /**
   * Whether a message is what was asked for.
   * @param {import("./message.js").Message} m
   */
  found(m) {
    return m.isItem;
  }

  /**
   * Asks once and collects the answers. It returns no items if no answer arrives, or if answers
   * may be lost with the connection and the request can be repeated. Items also come from
   * earlier attempts; what else these answer has no meaning any more.
   * @param {number} expires
   * @param {boolean} repeat
   * @param {number} wait
   * @param {PQError | undefined} refusal of the attempt before
   */
  async #attempt(expires, repeat, wait, refusal) {
    const { answers, deadline } = this;
    this.#bundled = this.batch > 0 && !this.#single;
    const reply = answers.attempt(this);
    const request = { op: this.op, queue: this.queue, subject: this.subject, ...this.written(expires, repeat) };
    let sent;
    try {
      sent = await this.client.mailbox.send(request, reply, deadline);
    } catch (err) {
      throw notSentFor(this, refusal, err);
    }
    if (!sent) throw ended(this, refusal, deadline.cause);
    answers.lost = false; // this attempt was sent on the new connection
    this.sent++;
    const answered = this.absence?.asked();
    try {
      return await this.#collect(now() + wait);
    } finally {
      answered?.();
    }
  }

  /**
   * The answers to an attempt, until a time.
   * @param {number} until
   */
  async #collect(until) {
    const { answers, deadline } = this;
    /** @type {T[]} */
    const items = [];
    for (let over = false; !over; ) {
      await this.#bell.wait(Math.min(until - now(), deadline.left), deadline.signal);
      const lost = answers.lost && this.onceMore && items.length === 0; // otherwise the rest of a batch may be on its way
      over = now() >= until || deadline.over || lost || answers.broken !== undefined || answers.denied !== undefined;
      // Answers that have arrived count even if the time is up.
      for (let one = answers.next(); one; one = answers.next()) {
        const { m, late } = one;
        if (late && !this.found(m)) continue;
        const e = refusalIn(m, this.op, this.queue);
        answers.whole = !late && (e !== undefined || m.endsBatch || this.batch === 0);
        if (e || m.endsBatch) {
          if (items.length > 0 || !e) return items;
          throw new Refusal(e);
        }
        if (!this.found(m)) {
          if (items.length > 0) return items;
          throw new Refusal(unreadable(this.op, this.queue, m.data));
        }
        const item = this.#read(m);
        if (!answers.got(m)) continue;
        items.push(item);
        if (this.batch === 0) return items;
      }
    }
    return items;
  }

  /** @param {import("./message.js").Message} m */
  #read(m) {
    try {
      return this.read(m, this.term);
    } catch (err) {
      throw err instanceof PQError ? new Refusal(err) : err;
    }
  }
}

/** An answer that is an error, on its way within this file. */
class Refusal extends Error {
  /** @param {PQError} why */
  constructor(why) {
    super(why.message);
    this.why = why;
  }
}
