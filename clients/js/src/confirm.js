// A pop for good loses its item if its client leaves between the bridge's question whether it is there and
// the answer. So one that waits looks first, which takes what is there as any pop does, and then waits for a
// lease, which it acknowledges before the caller gets the item.
import { Bell, now } from "./bell.js";
import { late, notSentFor } from "./call.js";
import { code, errorOf, LeaseLostError, PQError } from "./errors.js";
import { randomToken } from "./mailbox.js";
import { bytes } from "./message.js";
import { ackMany } from "./settlements.js";
import { longestWait, Taking, taking } from "./take.js";

/** How long such a lease lasts: for as long as an item is away whose client dies in that moment. */
const lease = 30_000;

/**
 * @param {import("./queue.js").Queue} queue
 * @param {number} batch how many items; 0: a single one
 * @param {import("../index.js").PopManyOptions | undefined} given
 * @param {import("./take.js").Reader<import("./take.js").Item>} read
 */
export async function pop(queue, batch, given, read) {
  const whole = taking(queue, "pop", batch, given, read);
  if (whole.term > 0 || whole.wait === 0 || given?.popId !== undefined) return whole.run();
  return new InSteps(queue, whole, given ?? {}).run();
}

class InSteps {
  #started = now();

  /**
   * @param {import("./queue.js").Queue} queue
   * @param {Taking<import("./take.js").Item>} whole that is done in steps
   * @param {import("../index.js").PopManyOptions} options
   */
  constructor(queue, whole, options) {
    this.queue = queue;
    this.whole = whole;
    this.options = options;
  }

  async run() {
    const { patience } = this.queue.client;
    const look = this.#step(undefined);
    look.silence = Math.min(this.whole.wait, longestWait) + late(patience);
    try {
      return await look.run();
    } catch (err) {
      if (!(err instanceof PQError) || err.code !== code.notFound) throw err;
    }
    for (;;) {
      const confirms = await this.#confirms();
      const wait = this.#step(Math.max(this.whole.wait - (now() - this.#started), 1));
      wait.sent = 1; // a deadline that comes between two steps finds the pop under way
      if (!confirms) return wait.run();
      wait.confirm(lease);
      let items;
      try {
        items = await wait.run();
      } catch (err) {
        throw this.#nothingTaken(err);
      }
      items = await this.#confirm(items);
      if (items.length > 0) return items;
    }
  }

  /** @param {number | undefined} wait */
  #step(wait) {
    const { subject, batch, read, deadline } = this.whole;
    return new Taking(this.queue, "pop", subject, batch, { ...this.options, wait }, read, deadline);
  }

  /**
   * Whether the user may acknowledge what pops lease. It asks once for each connection and queue: the server
   * refuses what is published without the right, and otherwise a bridge answers that it knows no such lease.
   */
  async #confirms() {
    const { queue, whole: { deadline } } = this;
    const { mailbox, patience } = queue.client;
    const known = mailbox.confirms.get(queue.name);
    if (known !== undefined) return known;
    const bell = new Bell();
    /** @type {boolean | undefined} */
    let may;
    let absent = false; // nobody is there, or acknowledgements do not leave the account
    const request = { op: "pop", queue: queue.name, subject: queue.subject(`ack.may-settle.${randomToken()}`), body: bytes("+WPI") };
    const { reply, stop } = mailbox.receive({
      subject: request.subject,
      deliver: (m) => {
        absent = m.noResponders && !m.headers.has("Nats-Service-Error-Code");
        may = absent ? undefined : true;
        bell.ring();
      },
      deny: () => {
        may = false;
        bell.ring();
      },
      reconnect: () => {}, // it may be sent on the new connection
      fail: () => bell.ring(),
    });
    try {
      if (await mailbox.send(request, reply, deadline)) await bell.wait(Math.min(late(patience), deadline.left), deadline.signal);
    } catch (err) {
      throw notSentFor({ ...request, sent: 0 }, undefined, err);
    } finally {
      stop();
    }
    if (may !== undefined) mailbox.confirms.set(queue.name, may);
    return may ?? !absent;
  }

  /**
   * Acknowledges items that are popped for good by that, and returns those that the caller has. Items that the
   * queue itself leases stay so.
   * @param {import("./take.js").Item[]} items
   */
  async #confirm(items) {
    if (!items[0]?.confirms) return items;
    const { queue, whole: { deadline } } = this;
    const { mailbox, patience } = queue.client;
    if (deadline.over) {
      for (const item of items) mailbox.back(item.ackSubject);
      throw nothing(queue.name, deadline);
    }
    const options = { timeout: patience.timeout }; // once it is asked for, only the answer tells whose the items are
    /** @type {(Error | null)[]} */
    const results = items.length > 1 ? await ackMany(queue, items, options) : [await items[0].ack(options).then(() => null, (err) => err)];
    const popped = [];
    let trouble;
    for (const [i, item] of items.entries()) {
      const err = results[i];
      if (!err) popped.push(item.popped());
      else if (!(err instanceof LeaseLostError)) {
        mailbox.back(item.ackSubject); // if it is still there
        trouble = err;
      }
    }
    if (popped.length > 0 || !trouble) return popped;
    throw trouble instanceof PQError ? asPop(trouble) : trouble;
  }

  /**
   * The error of a wait that has taken nothing, whatever came of it: without an answer nobody acknowledges the lease.
   * @param {unknown} err
   */
  #nothingTaken(err) {
    const { deadline, queue } = this.whole;
    if (!deadline.over || !(err instanceof PQError) || err.code !== code.unknownResult) return err;
    return nothing(queue, deadline);
  }
}

/**
 * @param {string} queue
 * @param {import("./bell.js").Deadline} deadline that is over
 */
const nothing = (queue, { cause }) => errorOf({ op: "pop", queue, code: code.timeout, text: "nothing arrived before the end of the wait", cause });

/** @param {PQError} err of an acknowledgement */
const asPop = ({ queue, code, reason, text, cause }) => errorOf({ op: "pop", queue, code, reason, text, cause });
