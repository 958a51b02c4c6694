// Settlements that go in one message, and what its answer says of each.
import { headers as natsHeaders } from "@nats-io/nats-core";
import { Call } from "./call.js";
import { errorOf, unreadable } from "./errors.js";
import { bytes, Message, text } from "./message.js";

/**
 * The message of some settlements.
 * @param {import("./queue.js").Queue} queue
 * @param {string} op
 * @param {string[]} lines
 */
export function settling(queue, op, lines) {
  const headers = natsHeaders();
  headers.set("PQ-Bundle", String(lines.length));
  const body = bytes(lines.map((line) => `${line}\n`).join(""));
  return new Call({ op, queue: queue.name, subject: queue.subject("ack.bundle.settle"), headers, body, repeatable: true });
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
  /** @type {string | undefined} */
  #line;

  /**
   * @param {import("./queue.js").Queue} queue
   * @param {string} op
   * @param {string} ack
   * @param {string} word
   * @param {Uint8Array} [result] what the work has brought
   */
  constructor(queue, op, ack, word, result) {
    super({ op, queue: queue.name, subject: ack, body: result ? behind(`${word} `, result) : bytes(word), repeatable: true });
    this.of = queue;
    this.word = word;
    /** Whether it goes alone: a line has no room for a result, nor for a reason of several lines, nor for a long text. */
    this.single = result !== undefined || /[\n\r]/.test(word) || bytes(word).length > longestWord;
  }

  /** What it is in a message with others. */
  get line() {
    return (this.#line ??= `${this.of.client.acks.written(this.subject)} ${this.word}`);
  }
}

const nothing = new Uint8Array(0);

/** The bytes of a settlement with a reason. A message with many has 2 KiB for each. */
const longestWord = 1100;

/** @type {import("./lane.js").Kind} */
export const settlements = {
  answer: 40,
  size: (/** @type {Settlement} */ call) => (call.single ? Infinity : call.line.length + 1),
  plain: () => {},
  bundle: (/** @type {[Settlement, ...Settlement[]]} */ calls) => settling(calls[0].of, calls[0].op, calls.map(({ line }) => line)),
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
