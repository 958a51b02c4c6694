// Settlements of many leases in one message.
import { maxBundle } from "./bundle.js";
import { shown } from "./duration.js";
import { Item } from "./item.js";
import { callOptions, checked } from "./options.js";
import { linesOf, refusal, settling } from "./settled.js";

/**
 * @param {import("./queue.js").Queue} queue
 * @param {readonly Item[]} items
 * @param {import("../index.js").CallOptions} [given]
 * @returns {Promise<(Error | null)[]>}
 */
export async function ackMany(queue, items, given) {
  const options = checked(given, "ackMany", callOptions);
  if (!Array.isArray(items)) throw new TypeError(`the items are ${shown(items)}: expected an array of items`);
  items.forEach((item, i) => {
    if (!(item instanceof Item) || item.queue !== queue.name) throw new TypeError(`item ${i} is ${shown(item)}: expected one of queue ${queue.name}`);
  });
  const together = new Settlements(queue);
  const results = items.map((item) => item.ackWith(together, options).then(() => null, (/** @type {unknown} */ err) => /** @type {Error} */ (err)));
  await together.send(options);
  return Promise.all(results);
}

/**
 * What became of a settlement. open: an attempt without an answer may have taken effect.
 * @typedef {{error?: import("./errors.js").PQError, open: boolean}} Result
 */

/** @typedef {import("./settled.js").Part} Part */

export class Settlements {
  /** @type {{one: Part, resolve: (result: Result) => void, reject: (cause: unknown) => void}[]} */
  #all = [];

  /** @param {import("./queue.js").Queue} queue */
  constructor(queue) {
    this.queue = queue;
  }

  /**
   * @param {Part} one
   * @returns {Promise<Result>}
   */
  add(one) {
    return new Promise((resolve, reject) => this.#all.push({ one, resolve, reject }));
  }

  /** @param {import("../index.js").CallOptions} options */
  async send(options) {
    for (let start = 0; start < this.#all.length; start += maxBundle) await this.#part(this.#all.slice(start, start + maxBundle), options);
  }

  /**
   * @param {{one: Part, resolve: (result: Result) => void, reject: (cause: unknown) => void}[]} part
   * @param {import("../index.js").CallOptions} options
   */
  async #part(part, options) {
    const { client, name } = this.queue;
    const call = settling(this.queue, "ack", part.map(({ one }) => one));
    try {
      const m = await call.send(client, client.deadline(options));
      linesOf(m, call, part.length).forEach((line, i) => part[i]?.resolve({ error: refusal("ack", name, line), open: call.open }));
    } catch (err) {
      for (const one of part) one.reject(err);
    }
  }
}
