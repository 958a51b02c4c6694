// Settlements of many leases in one message.
import { headers as natsHeaders } from "@nats-io/nats-core";
import { maxBundle } from "./bundle.js";
import { Call } from "./call.js";
import { shown } from "./duration.js";
import { errorOf, unreadable } from "./errors.js";
import { Item } from "./item.js";
import { bytes, text } from "./message.js";
import { callOptions, checked } from "./options.js";

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

export class Settlements {
  /** @type {{line: string, resolve: (result: Result) => void, reject: (cause: unknown) => void}[]} */
  #all = [];

  /** @param {import("./queue.js").Queue} queue */
  constructor(queue) {
    this.queue = queue;
  }

  /**
   * @param {string} line
   * @returns {Promise<Result>}
   */
  add(line) {
    return new Promise((resolve, reject) => this.#all.push({ line, resolve, reject }));
  }

  /** @param {import("../index.js").CallOptions} options */
  async send(options) {
    for (let start = 0; start < this.#all.length; start += maxBundle) await this.#part(this.#all.slice(start, start + maxBundle), options);
  }

  /**
   * @param {{line: string, resolve: (result: Result) => void, reject: (cause: unknown) => void}[]} part
   * @param {import("../index.js").CallOptions} options
   */
  async #part(part, options) {
    const { client, name } = this.queue;
    const headers = natsHeaders();
    headers.set("PQ-Bundle", String(part.length));
    const body = bytes(part.map(({ line }) => `${line}\n`).join(""));
    const call = new Call({ op: "ack", queue: name, subject: this.queue.subject("ack.bundle.settle"), headers, body, repeatable: true });
    try {
      const m = await call.send(client, client.deadline(options));
      const lines = text(m.data).replace(/\n$/, "").split("\n");
      if (lines.length !== part.length) throw unreadable("ack", name, m.data);
      lines.forEach((line, i) => part[i]?.resolve({ error: refusal(name, line), open: call.open }));
    } catch (err) {
      for (const one of part) one.reject(err);
    }
  }
}

/**
 * @param {string} queue
 * @param {string} line of the answer
 */
function refusal(queue, line) {
  if (line === "+OK" || line.startsWith("+OK ")) return undefined;
  const found = /^-ERR ([1-9]\d{2}) (\S+)(?: (.*))?$/.exec(line);
  if (!found) return unreadable("ack", queue, bytes(line));
  return errorOf({ op: "ack", queue, code: Number(found[1]), reason: found[2] === "-" ? "" : found[2], text: found[3] ?? "" });
}
