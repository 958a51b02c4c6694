// The mailbox receives the answers to all requests of a client. The requests of nats.js do not
// suffice: they end with the first message of a batch, and drop late answers, leased items
// included.
//
// An answer that is under way when the connection breaks never arrives, and nats.js drops what
// is published while there is none. So the mailbox tells all open requests when the connection
// is a new one, and requests are sent only while there is one.
//
// The last token of a reply subject is random: bridges answer to the inbox that a request names,
// so a client that could guess another client's inbox could send it answers.
import { ClosedConnectionError, createInbox, PermissionViolationError } from "@nats-io/nats-core";
import { Bell } from "./bell.js";
import { unbundled } from "./bundle.js";
import { code, errorOf } from "./errors.js";
import { Message } from "./message.js";

/**
 * A request that waits for answers.
 * @typedef {object} Addressee
 * @property {(m: Message) => void} deliver
 * @property {() => void} reconnect an answer to what was sent before may be lost
 * @property {(cause: Error) => void} fail no answer will come
 * @property {string} subject that it was sent to
 * @property {(cause: Error, certain: boolean) => void} deny the server does not let it pass; certain: this one, and no other with its subject
 */

/** 128 random bits as a token of a subject. */
export function randomToken() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Mailbox {
  /** @type {Map<string, Addressee>} */
  #open = new Map();
  /** @type {import("@nats-io/nats-core").Subscription | undefined} */
  #subscription;
  #prefix = "";
  /** @type {Set<Bell>} rung when there is a connection, or will be none */
  #bells = new Set();
  /** @type {Error | undefined} why there will be no connection any more */
  #closed;

  /**
   * @param {import("@nats-io/nats-core").NatsConnection} nc
   * @param {string} inboxPrefix
   * @param {import("./subjects.js").AckSubjects} acks
   */
  constructor(nc, inboxPrefix, acks) {
    this.nc = nc;
    this.inboxPrefix = inboxPrefix;
    this.acks = acks;
    /** Whether there is a connection. */
    this.connected = nc.info !== undefined;
    void this.#watch();
  }

  /**
   * A new reply subject. Messages on it go to the addressee until stop is called.
   * @param {Addressee} addressee
   */
  receive(addressee) {
    this.#subscribe();
    const token = randomToken();
    this.#open.set(token, addressee);
    return { reply: this.#prefix + token, stop: () => void this.#open.delete(token) };
  }

  #subscribe() {
    if (this.#subscription && !this.#subscription.isClosed()) return;
    const prefix = `${createInbox(this.inboxPrefix)}.`;
    this.#subscription = this.nc.subscribe(`${prefix}*`, {
      callback: (err, m) => {
        if (err) this.#fail(err);
        else this.#deliver(m, m.subject.slice(prefix.length));
      },
    });
    this.#prefix = prefix;
  }

  /**
   * @param {import("@nats-io/nats-core").Msg} m
   * @param {string} token
   */
  #deliver(m, token) {
    const message = Message.from(m);
    const addressee = this.#open.get(token);
    if (addressee) {
      addressee.deliver(message);
      return;
    }
    for (const one of unbundled(message)) this.giveBack(one);
  }

  /**
   * Returns the item of a late answer to its queue, so that others need not wait for its lease to
   * run out. If that fails, the lease does run out.
   * @param {Message} m
   */
  giveBack(m) {
    const ack = m.isItem ? this.acks.of(undefined, m) : "";
    if (!ack) return;
    try {
      this.nc.publish(ack, "-NAK 0s"); // nobody worked on it: no backoff
    } catch {
      // the connection is closed
    }
  }

  /** Follows the connection until it is closed for good. */
  async #watch() {
    for await (const status of this.nc.status()) {
      if (status.type === "disconnect") this.connected = false;
      if (status.type === "error") this.#deny(status.error);
      if (status.type !== "reconnect") continue;
      this.connected = true;
      this.#ring();
      for (const addressee of [...this.#open.values()]) addressee.reconnect();
    }
    const cause = await this.nc.closed();
    this.connected = false;
    this.#closed = Object.assign(new ClosedConnectionError(), { cause });
    this.#ring();
    this.#fail(this.#closed);
  }

  #ring() {
    for (const bell of this.#bells) bell.ring();
  }

  /**
   * Waits until there is a connection, or the deadline is over. It returns why there will be none
   * any more, if that is so.
   * @param {import("./bell.js").Deadline} deadline
   */
  async up(deadline) {
    const bell = new Bell();
    this.#bells.add(bell);
    while (!this.connected && !this.#closed && !deadline.over) await bell.wait(deadline.left, deadline.signal);
    this.#bells.delete(bell);
    return this.#closed;
  }

  /**
   * The server says which subject a client may not publish to, and not which message that was.
   * @param {Error} cause
   */
  #deny(cause) {
    if (!(cause instanceof PermissionViolationError) || cause.operation !== "publish") return;
    const all = [...this.#open.values()].filter(({ subject }) => subject === cause.subject);
    for (const addressee of all) addressee.deny(cause, all.length === 1);
  }

  /** @param {Error} cause */
  #fail(cause) {
    for (const addressee of [...this.#open.values()]) addressee.fail(cause);
  }

  /**
   * Sends a request. A failure says that it was not sent.
   * @param {{op: string, queue: string, subject: string, headers?: import("@nats-io/nats-core").MsgHdrs, body: Uint8Array}} request
   * @param {string} reply
   */
  publish({ op, queue, subject, headers, body }, reply) {
    const most = this.nc.info?.max_payload ?? Infinity;
    const size = body.length + headersSize(headers);
    if (size > most) throw errorOf({ op, queue, code: code.tooLarge, text: `${size} bytes: the NATS server takes ${most}` });
    try {
      this.nc.publish(subject, body, headers ? { reply, headers } : { reply });
    } catch (cause) {
      throw errorOf({ op, queue, code: code.unavailable, text: `the connection to NATS is closed: ${/** @type {Error} */ (cause).message}`, cause });
    }
  }
}

/**
 * The bytes of headers as nats.js writes them.
 * @param {import("@nats-io/nats-core").MsgHdrs | undefined} headers
 */
export function headersSize(headers) {
  return headers ? new TextEncoder().encode(String(headers)).length : 0;
}
