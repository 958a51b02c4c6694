// Messages as the client sees them, whether they came alone or in a bundle.

const decoder = new TextDecoder();
const encoder = new TextEncoder();

/** @param {Uint8Array} bytes */
export const text = (bytes) => decoder.decode(bytes);

/** @param {string} value */
export const bytes = (value) => encoder.encode(value);

export class Message {
  /**
   * @param {Map<string, string[]>} headers
   * @param {Uint8Array} data
   * @param {string} reply
   */
  constructor(headers, data, reply = "") {
    this.headers = headers;
    this.data = data;
    this.reply = reply;
    /** From the server: nobody has received the request. */
    this.noResponders = false;
  }

  /**
   * A message of nats.js. The data is copied, so that one item does not keep all that came with
   * it in memory.
   * @param {import("@nats-io/nats-core").Msg} m
   */
  static from(m) {
    /** @type {Map<string, string[]>} */
    const headers = new Map();
    for (const [name, values] of m.headers ?? []) headers.set(name, values);
    const message = new Message(headers, m.data.slice(), m.reply ?? "");
    message.noResponders = m.data.length === 0 && (m.headers?.code === 503 || message.get("Status") === "503");
    return message;
  }

  /**
   * The first value of a header, "" if there is none.
   * @param {string} name
   */
  get(name) {
    return this.headers.get(name)?.[0] ?? "";
  }

  /** Whether it ends a batch. */
  get endsBatch() {
    return this.get("Status") === "204";
  }

  /** Whether it is an item. */
  get isItem() {
    return this.headers.has("PQ-Id");
  }
}
