// What can be done with an item that a bridge has answered, and with its lease.
import { duration, durationText, nanoseconds, shown } from "./duration.js";
import { code, LeaseLostError, mayRepeat, NotLeasedError, SettledError, unreadable } from "./errors.js";
import { hold } from "./hold.js";
import { count, mostCost } from "./integer.js";
import { ItemData, time } from "./itemdata.js";
import { writeJSON } from "./json.js";
import { abortSignal, callOptions, checked, reasonOf } from "./options.js";
import { payloadOf, push } from "./push.js";
import { costHeaders, Settlement, settlements } from "./settled.js";
import { next } from "./take.js";

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

export class Item extends ItemData {
  #queue;
  #ack;
  #settled = false;
  #confirms = false;
  /** @type {string | undefined} what the delivery has really cost, as a header has it */
  #spent;

  /**
   * @param {import("./queue.js").Queue} queue
   * @param {string} ack subject that settles the lease; "" without one
   */
  constructor(queue, ack) {
    super(queue.name);
    this.#queue = queue;
    this.#ack = ack;
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
   * @param {number} [term] of the lease that was asked for
   */
  static read(queue, m, op, term = 0) {
    const item = new Item(queue, queue.client.acks.of(queue.name, m));
    item.leaseTerm = term;
    try {
      if (!item.leased && (m.reply !== "" || m.headers.has("PQ-Ack"))) {
        throw new Error(`PQ-Ack is ${shown(m.get("PQ-Ack"))}, the reply subject ${shown(m.reply)}: expected one that settles a lease of queue ${queue.name}`);
      }
      item.fill(m);
      item.#confirms = m.headers.has("PQ-Confirm");
    } catch (cause) {
      throw unreadable(op, queue.name, m.data, cause);
    }
    return item;
  }

  /** Whether it is leased until it is acknowledged, and then popped for good. */
  get confirms() {
    return this.#confirms;
  }

  /** Makes what was acknowledged an item that was popped without a lease. */
  popped() {
    this.#ack = "";
    this.#settled = this.#confirms = false;
    this.deliveries--; // this one was its last
    [this.fence, this.keyFence, this.backoff] = [0, 0, 0];
    return this;
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

  /** @param {import("../index.js").AckOptions} [given] */
  async ack(given) {
    const { result, ...options } = checked(given, "ack", ["result", ...callOptions]);
    const said = result === undefined ? undefined : payloadOf(result, "the result");
    await this.#once(() => this.#send("ack", "+ACK", options, false, said));
  }

  /**
   * Acknowledges in a message with others.
   * @param {import("./settlements.js").Settlements} together
   * @param {import("../index.js").CallOptions} options
   */
  async ackWith(together, options) {
    await this.#once(async () => {
      const { error, open } = await together.add({ ack: this.#queue.client.acks.written(this.#ack), word: "+ACK", cost: this.#spent });
      if (error && mayRepeat(error, true)) return void (await this.#send("ack", "+ACK", options, open || error.code === code.unknownResult));
      if (error && !(open && error instanceof LeaseLostError && held("ack", error.reason))) throw error;
    });
  }

  /** @param {import("../index.js").NakOptions} [given] */
  async nak(given) {
    const { delay, reason: whole, ...options } = checked(given, "nak", ["delay", "reason", ...callOptions]);
    const ms = delay === undefined ? undefined : duration(delay, "delay", { zero: true, most: tenYears });
    const reason = reasonOf(whole);
    const how = reason !== "" ? ` ${writeJSON({ delay: ms === undefined ? undefined : BigInt(nanoseconds(ms)), reason })}` : ms === undefined ? "" : ` ${durationText(ms)}`;
    await this.#once(() => this.#send("nak", `-NAK${how}`, options));
  }

  /**
   * @param {string} [reason]
   * @param {import("../index.js").CallOptions} [given]
   */
  async giveBack(reason, given) {
    const options = checked(given, "giveBack", callOptions);
    const kept = reasonOf(reason);
    await this.#once(() => this.#send("giveBack", `+BACK ${kept}`.trimEnd(), options));
  }

  /**
   * @param {string} [reason]
   * @param {import("../index.js").CallOptions} [given]
   */
  async term(reason, given) {
    const options = checked(given, "term", callOptions);
    const kept = reasonOf(reason);
    await this.#once(() => this.#send("term", `+TERM ${kept}`.trimEnd(), options));
  }

  /** @param {import("../index.js").CallOptions} [given] */
  async extend(given) {
    await this.#extend("+WPI", checked(given, "extend", callOptions));
  }

  /**
   * @param {string} text
   * @param {import("../index.js").CallOptions} [given]
   */
  async report(text, given) {
    if (typeof text !== "string") throw new TypeError(`the progress is ${shown(text)}: expected a text`);
    return this.#extend(`+WPI ${text}`.trimEnd(), checked(given, "report", callOptions));
  }

  /**
   * @param {string} word
   * @param {import("../index.js").CallOptions} options
   */
  async #extend(word, options) {
    if (this.#settled) throw new SettledError();
    const m = await this.#send("extend", word, options);
    const until = m?.get("PQ-Lease-Expires");
    if (until) this.leaseExpires = time(until);
    return !m?.get("PQ-Note");
  }

  /** @param {number} cost */
  spent(cost) {
    const found = count(cost, "the cost", mostCost, 0);
    if (!this.leased) throw new NotLeasedError();
    if (this.#settled) throw new SettledError();
    this.#spent = String(found);
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
    return this.#once(() => next(this.#queue, this.#ack, this.leaseTerm, given, (m, term) => Item.read(this.#queue, m, "ackNext", term), costHeaders(this.#spent)));
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
   * @param {Uint8Array} [result] what the work has brought
   */
  async #send(op, body, options, open = false, result) {
    if (!this.leased) throw new NotLeasedError();
    const { client } = this.#queue;
    const cost = body === "+BACK" ? undefined : this.#spent; // an item with which nobody has begun costs nothing
    const call = new Settlement(this.#queue, op, this.#ack, body, cost, result);
    try {
      return await client.lanes.send(settlements, `settle ${this.queue}`, call, client.deadline(options));
    } catch (err) {
      if (err instanceof LeaseLostError && (open || call.open) && held(op, err.reason)) return undefined;
      throw err;
    }
  }
}
