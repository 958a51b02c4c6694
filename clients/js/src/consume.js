// Workers: they lease items, call a handler on each, and settle what it leaves.
import { Absence } from "./absence.js";
import { pause } from "./bell.js";
import { duration, shown } from "./duration.js";
import { code, EmptyError, errorOf, ItemCancelledError, LeaseLostError, PQError, TooLargeError } from "./errors.js";
import { hold } from "./hold.js";
import { holderOf, ownName } from "./holder.js";
import { whenIdle } from "./idle.js";
import { count } from "./integer.js";
import { Item } from "./item.js";
import { Notices } from "./notices.js";
import { abortSignal, checked, flag, word } from "./options.js";
import { returned } from "./push.js";
import { backoff } from "./retry.js";
import { taking } from "./take.js";

/** An item is delivered again after a time. */
export class RetryAfter extends Error {
  /**
   * @param {number | string} delay
   * @param {unknown} [cause]
   */
  constructor(delay, cause) {
    super(`again in ${delay}${typeof delay === "number" ? " ms" : ""}${cause instanceof Error ? `: ${cause.message}` : ""}`, { cause });
    this.name = "RetryAfter";
    this.delay = duration(delay, "delay", { zero: true });
  }
}

/** An item becomes a dead letter, because trying again would not help. */
export class GiveUp extends Error {
  /**
   * @param {string} reason
   * @param {unknown} [cause]
   */
  constructor(reason, cause) {
    super(reason, { cause });
    this.name = "GiveUp";
  }
}

const defaultLease = 30_000;

/** How long one request waits for an item. A bridge that dies meanwhile is noticed after that. */
const oneWait = 30_000;

/** When nothing can be got, how long until it is tried again. */
const firstTrouble = 100;
const lastTrouble = 10_000;

/**
 * The delay before the next delivery of a failed item: a second after the first failure, twice
 * as long after each further one, 5 minutes at most.
 * @param {number} failures
 */
export const defaultBackoff = (failures) => backoff(failures, 1000, 300_000);

/**
 * What becomes of the errors of a consumer, unless a program says otherwise. Those that programs throw on purpose, and those
 * of requests, have no stack that says more.
 * @param {unknown} err
 * @param {import("./item.js").Item} [item]
 */
function log(err, item) {
  const plain = err instanceof GiveUp || err instanceof RetryAfter || err instanceof PQError;
  console.error(item ? `pqbridge: item ${item.id} of ${item.queue}:` : "pqbridge:", plain ? err.message : err);
}

/**
 * Whether an error says only that its signal has aborted, and not why.
 * @param {unknown} err
 */
const isAbort = (err) => err instanceof Error && err.name === "AbortError";

/** What an attempt says that the end of its consumer cut off. */
const stopped = "stopped";

const names = ["concurrency", "end", "lease", "min", "max", "repeatable", "limit", "stopWhenEmpty", "holder", "backoff", "onError", "signal"];

/**
 * @param {import("./queue.js").Queue} queue
 * @param {(item: import("./item.js").Item, signal: AbortSignal) => unknown} handler
 * @param {import("../index.js").ConsumeOptions | undefined} given
 */
export function consume(queue, handler, given) {
  if (typeof handler !== "function") throw new TypeError(`the handler is ${shown(handler)}: expected a function of an item`);
  return new Consumer(queue, handler, checked(given, "consume", names));
}

export class Consumer {
  /** Aborts the pops that wait. */
  #taking = new AbortController();
  /** Aborts the work on items, which ends later. */
  #work = new AbortController();
  /** @type {unknown} */
  #fatal;
  #left;
  #asks;
  #notices;
  /** @type {Promise<void>} */
  #closed;
  /** Whether the program hears why the consumer cannot go on. */
  #awaited = false;
  /** The errors of pops that were reported, each of which several workers get. */
  #reported = new WeakSet();

  /**
   * @param {import("./queue.js").Queue} queue
   * @param {(item: import("./item.js").Item, signal: AbortSignal) => unknown} handler
   * @param {import("../index.js").ConsumeOptions} options
   */
  constructor(queue, handler, options) {
    const workers = count(options.concurrency ?? 1, "concurrency", 10_000);
    this.queue = queue;
    this.handler = handler;
    this.#left = options.limit === undefined ? Infinity : count(options.limit, "limit");
    this.onError = functionOf(options.onError, "onError") ?? log;
    this.backoff = functionOf(options.backoff, "backoff");
    this.stopWhenEmpty = flag(options.stopWhenEmpty, "stopWhenEmpty");
    const lease = duration(options.lease ?? defaultLease, "lease");
    const end = word(options.end, "end", ["min", "max"]);
    const holder = holderOf(options.holder) ?? ownName;
    const pop = { lease, end, holder, min: options.min, max: options.max, repeatable: flag(options.repeatable, "repeatable"), wait: this.stopWhenEmpty ? undefined : oneWait, signal: this.#taking.signal };
    this.#asks = new Asks(queue, pop, workers, (err) => this.#report(err));
    this.#notices = new Notices(queue);
    const signal = abortSignal(options.signal);
    const stop = () => this.#taking.abort();
    if (signal?.aborted) this.#taking.abort();
    signal?.addEventListener("abort", stop);
    this.#notices.listen(holder); // before the pops, whose items it is about
    this.#closed = Promise.all(Array.from({ length: workers }, () => this.#run())).then(async () => {
      this.#notices.close();
      this.#asks.absence.over();
      signal?.removeEventListener("abort", stop);
      await queue.client.mailbox.quiet(); // the program may close the connection next
      if (!this.#fatal) return;
      if (!this.#awaited) this.#report(this.#fatal);
      throw this.#fatal;
    });
    this.#closed.catch(() => {}); // a program may look at it later
  }

  /** Settles when all workers have ended. */
  get closed() {
    this.#awaited = true;
    return this.#closed;
  }

  /**
   * Takes no more items, waits for the handlers and settles their items.
   * @param {{grace?: number | string}} [given]
   */
  async drain(given) {
    const { grace } = checked(given, "drain", ["grace"]);
    const ms = grace === undefined ? undefined : duration(grace, "grace", { zero: true });
    this.#taking.abort();
    if (ms !== undefined) {
      const timer = setTimeout(() => this.#work.abort(new Error(`the consumer ends, and ${ms} ms of grace are over`)), ms);
      void this.#closed.catch(() => {}).then(() => clearTimeout(timer));
    }
    return this.closed;
  }

  get #stopping() {
    return this.#taking.signal.aborted;
  }

  /**
   * A worker. It asks for the next item when it has settled one, and begins with that when both are answered.
   */
  async #run() {
    /** @type {Promise<void>} */
    let settling = Promise.resolve();
    let settled = true;
    for (let troubles = 0; !this.#stopping && this.#left > 0; ) {
      this.#left--;
      const early = !settled;
      let item;
      try {
        item = await this.#asks.next();
      } catch (err) {
        this.#left++;
        await settling;
        if (this.#stopping) return;
        if (this.#isFatal(err)) {
          this.#fatal ??= err;
          this.#taking.abort();
          return;
        }
        if (this.stopWhenEmpty && err instanceof EmptyError) {
          if (early) continue; // the item that it has settled may be back, or may have kept others waiting
          return;
        }
        // No item arrived; or the one of a lost answer went to another consumer.
        if (err instanceof LeaseLostError || (err instanceof PQError && err.code === code.timeout)) {
          troubles = 0; // the bridge answers
          continue;
        }
        if (!this.#asks.absence.ended(err) && !this.#reported.has(/** @type {object} */ (err))) {
          this.#reported.add(/** @type {object} */ (err));
          this.#report(err);
        }
        await pause(backoff(++troubles, firstTrouble, lastTrouble), this.#taking.signal);
        continue;
      }
      const leased = item;
      const held = hold(leased, this.#work.signal, this.#notices);
      await settling;
      [troubles, settled] = [0, false];
      if (this.#stopping) held.stop();
      const settle = this.#stopping ? () => leased.giveBack() : await this.#serve(leased, held);
      settling = (settle ? this.#settle(leased, settle) : settling).then(() => void (settled = true));
    }
    await settling;
  }

  /**
   * Whether a retry would never succeed.
   * @param {unknown} err
   */
  #isFatal(err) {
    if (this.queue.client.connection.isClosed() || this.queue.client.connection.isDraining()) return true;
    return !(err instanceof PQError) || err.code === code.badRequest || err.code === code.forbidden;
  }

  /**
   * Calls the handler on an item. It returns how to settle the item, undefined if nothing is left to settle.
   * @param {import("./item.js").Item} item
   * @param {{signal: AbortSignal, stop: () => void}} held
   */
  async #serve(item, held) {
    const loss = () => (held.signal.reason instanceof LeaseLostError ? held.signal.reason : undefined);
    if (loss()) return void this.#report(loss(), item); // while the item before it was settled
    let failed = false;
    /** @type {unknown} */
    let err;
    /** @type {unknown} */
    let value;
    try {
      value = await this.handler(item, held.signal);
    } catch (thrown) {
      [failed, err] = [true, thrown];
    }
    held.stop();
    const lost = loss();
    if (failed) this.#report(lost && isAbort(err) ? lost : err, item);
    const ended = lost instanceof ItemCancelledError; // and nothing settles the item any more
    if (ended && !failed && !item.settled) this.#report(lost, item);
    // A late acknowledgement still takes effect if no other consumer has got the item.
    return item.settled || ended || (failed && lost) ? undefined : () => (failed ? this.#fail(item, err) : this.#done(item, value));
  }

  /**
   * @param {import("./item.js").Item} item
   * @param {() => Promise<void>} settle
   */
  async #settle(item, settle) {
    try {
      await settle();
    } catch (trouble) {
      this.#report(trouble, item);
    }
  }

  /**
   * Settles an item whose handler has ended without an error.
   * @param {import("./item.js").Item} item
   * @param {unknown} value that it has returned
   */
  async #done(item, value) {
    if (value === undefined || item.resultTtl === 0) return item.ack(); // nobody asks
    /** @type {Uint8Array} */
    let result;
    try {
      result = returned(value);
    } catch (err) {
      return this.#unkept(item, `cannot be kept: ${err instanceof Error ? err.message : String(err)}`, err);
    }
    try {
      await item.ack({ result });
    } catch (err) {
      if (!(err instanceof TooLargeError)) throw err;
      return this.#unkept(item, `is too large: ${err.text}`, err);
    }
  }

  /**
   * Ends an item whose work is done: another attempt would do it again, and return the same.
   * @param {import("./item.js").Item} item
   * @param {string} why
   * @param {unknown} cause
   */
  async #unkept(item, why, cause) {
    const err = new GiveUp(`the returned value ${why}`, cause);
    this.#report(err, item);
    return item.term(err.message);
  }

  /**
   * Settles an item by the error of its handler.
   * @param {import("./item.js").Item} item
   * @param {unknown} err
   */
  async #fail(item, err) {
    if (err instanceof GiveUp) return item.term(err.message);
    const told = err instanceof RetryAfter && err.cause instanceof Error ? err.cause : err;
    const reason = told instanceof Error ? told.message : typeof told === "string" ? told : "";
    if (err instanceof RetryAfter) return item.nak({ delay: err.delay, reason });
    if (this.#work.signal.aborted) return item.giveBack(stopped); // nothing is wrong with the item
    if (!this.backoff && item.backoff > 0) return item.nak({ reason }); // the queue's
    const failures = item.deliveries - item.interruptions - item.returns; // this one included
    return item.nak({ delay: (this.backoff ?? defaultBackoff)(failures), reason });
  }

  /**
   * @param {unknown} err
   * @param {import("./item.js").Item} [item]
   */
  #report(err, item) {
    try {
      this.onError(err, item);
    } catch (second) {
      this.#fatal ??= second; // a program that does not want to go on
      this.#taking.abort();
    }
  }
}

/** The workers of a consumer that have nothing to do ask for items together: for as many as they are. */
class Asks {
  /** @type {{resolve: (item: import("./item.js").Item) => void, reject: (err: unknown) => void}[]} */
  #idle = [];
  #leaving = false;
  /** Whether a pop has been answered. */
  #begun = false;

  /**
   * @param {import("./queue.js").Queue} queue
   * @param {import("../index.js").PopOptions} pop
   * @param {number} workers
   * @param {(err: PQError) => void} tell
   */
  constructor(queue, pop, workers, tell) {
    this.queue = queue;
    this.pop = pop;
    this.tell = tell;
    /** Says for how long nothing answers. */
    this.absence = new Absence(queue, tell);
    this.most = Math.min(workers, queue.client.lanes.max);
  }

  /** @returns {Promise<import("./item.js").Item>} */
  async next() {
    if (this.most === 1) return /** @type {Item} */ ((await this.#pop(0))[0]); // pops never return none
    return new Promise((resolve, reject) => {
      this.#idle.push({ resolve, reject });
      this.#begin();
    });
  }

  #begin() {
    if (this.#leaving || this.#idle.length === 0) return;
    this.#leaving = true;
    whenIdle(() => {
      this.#leaving = false;
      void this.#ask(this.#idle.splice(0, this.most));
      this.#begin();
    });
  }

  /** @param {{resolve: (item: import("./item.js").Item) => void, reject: (err: unknown) => void}[]} workers */
  async #ask(workers) {
    try {
      const items = await this.#pop(workers.length === 1 ? 0 : workers.length);
      if (items.length > 1) this.queue.client.lanes.wake();
      for (const item of items) workers.shift()?.resolve(item);
      this.#idle.unshift(...workers);
      this.#begin();
    } catch (err) {
      for (const { reject } of workers) reject(err);
    }
  }

  /**
   * The first pop does not wait, because only then a bridge says that there is no queue.
   * @param {number} batch how many items; 0: a single one
   * @returns {Promise<Item[]>}
   */
  async #pop(batch) {
    const first = !this.#begun;
    const pop = taking(this.queue, "pop", batch, first ? { ...this.pop, wait: undefined } : this.pop, (m, term) => Item.read(this.queue, m, "pop", term));
    pop.absence = this.absence;
    try {
      const items = await pop.run();
      this.#begun = true;
      return items;
    } catch (err) {
      if (!first || !(err instanceof EmptyError)) throw err;
      if (err.reason === "unknown") this.#absent();
      this.#begun = true;
      if (this.pop.wait === undefined) throw err;
    }
    return this.#pop(batch);
  }

  #absent() {
    if (this.#begun) return; // another worker has said so
    const { name } = this.queue;
    this.tell(errorOf({ op: "consume", queue: name, code: code.notFound, reason: "unknown", text: `queue ${name} does not exist yet: expected its first push, or another name` }));
  }
}

/**
 * @template {Function} T
 * @param {T | undefined} value
 * @param {string} what
 */
function functionOf(value, what) {
  if (value === undefined || typeof value === "function") return value;
  throw new TypeError(`${what} is ${shown(value)}: expected a function`);
}
