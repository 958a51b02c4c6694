// Settlements that go in one message, and what its answer says of each.
import { headers as natsHeaders } from "@nats-io/nats-core";
import { bundle } from "./bundle.js";
import { Call } from "./call.js";
import { errorOf, unreadable } from "./errors.js";
import { bytes, Message, text } from "./message.js";

/**
 * One of several settlements of a message. ack: the subject that settles the lease, as bridges write it. cost: what the delivery has really
 * cost, if that is known.
 * @typedef {{ack: string, word: string, cost: string | undefined}} Part
 */

/**
 * The message of some settlements. A line has no room for a cost.
 * @param {import("./queue.js").Queue} queue
 * @param {string} op
 * @param {Part[]} parts
 */
export function settling(queue, op, parts) {
  const headers = natsHeaders();
  headers.set("PQ-Bundle", String(parts.length));
  const framed = parts.some(({ cost }) => cost !== undefined);
  if (framed) headers.set("PQ-Frames", "true");
  const body = framed ? bundle(parts.map(frame)) : bytes(parts.map(({ ack, word }) => `${ack} ${word}\n`).join(""));
  return new Call({ op, queue: queue.name, subject: queue.subject("ack.bundle.settle"), headers, body, repeatable: true });
}

/**
 * @param {Part} part
 * @returns {{headers: [string, string][], payload: Uint8Array}}
 */
const frame = ({ ack, word, cost }) => ({ headers: [["PQ-Ack", ack], ...costs(cost)], payload: bytes(word) });

/**
 * @param {string | undefined} cost
 * @returns {[string, string][]}
 */
const costs = (cost) => (cost === undefined ? [] : [["PQ-Cost", cost]]);

/**
 * The headers of a settlement by itself.
 * @param {string | undefined} cost
 */
export function costHeaders(cost) {
  if (cost === undefined) return undefined;
  const headers = natsHeaders();
  headers.set("PQ-Cost", cost);
  return headers;
}

/**
 * The lines of the answer.
 * @param {import("./message.js").Message} m
 * @param {Call} bundle
 * @param {number} n
 */
export function linesOf(m, { op, queue }, n) {
  const lines = text(m.data).replace(/\n$/, "").split("\n");
  if (lines.length !== n) throw unreadable(op, queue, m.data);
  return lines;
}

/**
 * @param {string} op
 * @param {string} queue
 * @param {string} line of the answer
 */
export function refusal(op, queue, line) {
  if (line === "+OK" || line.startsWith("+OK ")) return undefined;
  const found = /^-ERR ([1-9]\d{2}) (\S+)(?: (.*))?$/.exec(line);
  if (!found) return unreadable(op, queue, bytes(line));
  return errorOf({ op, queue, code: Number(found[1]), reason: found[2] === "-" ? "" : found[2], text: found[3] ?? "" });
}

/**
 * @param {string} word
 * @param {Uint8Array} data
 */
function behind(word, data) {
  const all = new Uint8Array(word.length + data.length);
  all.set(bytes(word));
  all.set(data, word.length);
  return all;
}

/** One settlement. */
export class Settlement extends Call {
  /** @type {Part | undefined} */
  #part;

  /**
   * @param {import("./queue.js").Queue} queue
   * @param {string} op
   * @param {string} ack
   * @param {string} word
   * @param {string} [cost] of the delivery
   * @param {Uint8Array} [result] what the work has brought
   */
  constructor(queue, op, ack, word, cost, result) {
    super({ op, queue: queue.name, subject: ack, headers: costHeaders(cost), body: result ? behind(`${word} `, result) : bytes(word), repeatable: true });
    this.of = queue;
    this.word = word;
    this.cost = cost;
    /** Whether it goes alone: a line has no room for a result, nor for a reason of several lines, nor for a long text. */
    this.single = result !== undefined || /[\n\r]/.test(word) || bytes(word).length > longestWord;
  }

  /** What it is in a message with others. */
  get part() {
    return (this.#part ??= { ack: this.of.client.acks.written(this.subject), word: this.word, cost: this.cost });
  }

  /** Its bytes there, or some more. */
  get size() {
    return this.part.ack.length + this.word.length + framing;
  }
}

const nothing = new Uint8Array(0);

/** What a frame has beside the ack subject and the word. */
const framing = "1000 1000\nPQ-Ack: \nPQ-Cost: 1000000\n\n".length;

/** The bytes of a settlement with a reason. A message with many has 2 KiB for each. */
const longestWord = 1100;

/** @type {import("./lane.js").Kind} */
export const settlements = {
  answer: 40,
  size: (/** @type {Settlement} */ call) => (call.single ? Infinity : call.size),
  plain: () => {},
  bundle: (/** @type {[Settlement, ...Settlement[]]} */ calls) => settling(calls[0].of, calls[0].op, calls.map(({ part }) => part)),
  read: (m, bundle, calls) =>
    linesOf(m, bundle, calls.length).map((line, i) => {
      const { op, queue } = calls[i];
      const error = refusal(op, queue, line);
      if (error) return { error };
      const [until = "", note = ""] = line.slice("+OK ".length).split(" ");
      const said = Object.entries({ "PQ-Lease-Expires": [until], "PQ-Note": [note] }).filter(([, [value]]) => value !== "");
      return { value: new Message(new Map(said), nothing) };
    }),
  denied: () => false,
};
