// Pops for good that wait. Whoever stops waiting at the moment in which the bridge takes an item out of
// the queue would lose it: the bridge asks before its commit whether somebody waits, and the answer
// comes after it. So the client takes what is there, and waits with a lease. It acknowledges before it
// hands the item out, or gives it back if nobody waits any more.
//
// A lease of the queue's own is another matter: the caller is to settle that. A pop that names none
// shows whether the queue has one. Until one has shown it the client waits with a peek.
import { now } from "./bell.js";
import { ended } from "./call.js";
import { code, EmptyError, errorOf, LeaseLostError, PQError } from "./errors.js";
import { Retry } from "./retry.js";
import { ackMany } from "./settlements.js";
import { Taking, taking } from "./take.js";

/** How long an item may be on its way to a caller. */
const lease = 30_000;

/** For how long it is believed what a queue does. */
const habit = 10 * 60_000;

/**
 * What is known of a queue.
 * @typedef {object} Known
 * @property {number} [until]
 * @property {boolean} [leases] whether it leases by itself
 * @property {boolean} [peeks] whether the user may peek; undefined: not tried
 * @property {boolean} [acks] whether the user may acknowledge
 */

/** @type {WeakMap<import("./client.js").Client, Map<string, Known>>} */
const all = new WeakMap();

/**
 * @param {import("./queue.js").Queue} queue
 * @returns {Known}
 */
function knownOf({ client, name }) {
  const queues = all.get(client) ?? new Map();
  all.set(client, queues);
  let known = queues.get(name);
  if (!known || known.until < now()) queues.set(name, (known = { until: now() + habit }));
  return known;
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {number} batch how many items; 0: a single one
 * @param {import("../index.js").PopManyOptions | undefined} given
 * @param {import("./take.js").Reader} read
 */
export async function pop(queue, batch, given, read) {
  const whole = taking(queue, "pop", batch, given, read);
  if (whole.term > 0) return whole.run();
  if (whole.wait === 0 || given?.popId !== undefined) return shown(queue, await whole.run());
  return new ForGood(queue, whole, given ?? {}).run();
}

/**
 * Notes whether the queue leases by itself.
 * @param {import("./queue.js").Queue} queue
 * @param {import("./take.js").Item[]} items of a pop that names no lease
 */
function shown(queue, items) {
  const known = knownOf(queue);
  known.leases = items[0]?.leased;
  known.until = now() + habit;
  return items;
}

class ForGood {
  #started = now();
  #steps = 0;
  #retry = new Retry();

  /**
   * @param {import("./queue.js").Queue} queue
   * @param {Taking} whole that is done in steps
   * @param {import("../index.js").PopManyOptions} options
   */
  constructor(queue, whole, options) {
    this.queue = queue;
    this.whole = whole;
    const { wait, end, ...rest } = options;
    this.options = rest;
  }

  async run() {
    for (;;) {
      let items = await this.#unless(EmptyError, () => this.#take({}));
      if (items) return shown(this.queue, items);
      const wait = Math.max(this.whole.wait - (now() - this.#started), 1);
      switch (await this.#way()) {
        case "peek":
          await this.#peek(wait);
          break;
        case "plain":
          return shown(this.queue, await this.#take({ wait }));
        case "lease":
          items = await this.#unless(LeaseLostError, () => this.#take({ wait, lease }));
          if (items) items = await this.#keep(items);
          if (items?.length) return items;
      }
    }
  }

  /**
   * Does a step, but for an error that only says that there is no item.
   * @template T
   * @param {typeof EmptyError | typeof LeaseLostError} none
   * @param {() => Promise<T>} step
   */
  async #unless(none, step) {
    try {
      return await step();
    } catch (err) {
      if (!(err instanceof none)) throw err;
    }
  }

  /** @param {{wait?: number, lease?: number}} options */
  #take(options) {
    const { whole } = this;
    return this.#step(new Taking(this.queue, "pop", whole.subject, whole.batch, { ...this.options, ...options }, whole.read, whole.deadline));
  }

  /** @param {Taking} step */
  #step(step) {
    step.sent = this.#steps++ && 1; // a deadline that comes between two steps finds the pop under way
    return step.run();
  }

  /** How to wait. */
  async #way() {
    const known = knownOf(this.queue);
    if (known.leases === undefined) return known.peeks === false ? "plain" : "peek";
    if (known.leases) return "plain";
    known.acks ??= await this.queue.client.mailbox.permits(this.queue.subject("ack.0.0"), this.whole.deadline);
    return known.acks === false ? "plain" : "lease";
  }

  /**
   * Waits until there is something.
   * @param {number} wait
   */
  async #peek(wait) {
    const { min, max } = this.options;
    const { subject, read, deadline } = this.whole;
    const known = knownOf(this.queue);
    try {
      await this.#step(new Taking(this.queue, "peek", subject.replace(/pop\.(\w+)$/, "peek.$1"), 0, { min, max, wait }, read, deadline));
      known.peeks = true;
    } catch (err) {
      if (!(err instanceof PQError)) throw err;
      if (err.code !== code.forbidden) throw asPop(err);
      known.peeks = false;
    }
    this.#retry.allowed(0);
    await this.#retry.wait(deadline); // others may have been faster
  }

  /**
   * Acknowledges items, and returns those that are the caller's. The caller cannot leave any more.
   * @param {import("./take.js").Item[]} items
   */
  async #keep(items) {
    const { whole, queue } = this;
    const { mailbox, patience } = queue.client;
    if (whole.deadline.signal?.aborted) {
      for (const item of items) mailbox.back(item.ackSubject);
      throw ended({ op: "pop", queue: queue.name, sent: 1 }, undefined, whole.deadline.cause);
    }
    const options = { timeout: Math.max(whole.deadline.left, patience.attempt) };
    /** @type {(Error | null)[]} */
    const results = items.length > 1 ? await ackMany(queue, items, options) : [await items[0]?.ack(options).then(() => null, (err) => err)];
    const kept = items.filter((_, i) => results[i] === null);
    for (const item of kept) item.withoutLease();
    const trouble = results.find((err) => err && !(err instanceof LeaseLostError));
    if (!trouble || kept.length > 0) return kept;
    if (!(trouble instanceof PQError)) throw trouble;
    if (trouble.code !== code.forbidden) throw asPop(trouble);
    knownOf(queue).acks = false;
    return [];
  }
}

/** @param {PQError} err of a step */
const asPop = ({ queue, code, reason, text, cause }) => errorOf({ op: "pop", queue, code, reason, text, cause });
