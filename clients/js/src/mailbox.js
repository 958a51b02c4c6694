// The mailbox receives the answers to all requests of a client. The requests of nats.js do not
// suffice: they end with the first message of a batch, and drop late answers, leased items
// included.
//
// Before a client asks anything on a connection, the server has to let it receive answers: a
// request whose answer cannot arrive would take an item along. So the mailbox subscribes and waits
// for the server's next word, which is the refusal if there is one. Requests wait meanwhile, and
// while there is no connection: nats.js drops what is published then.
//
// An answer that is under way when the connection breaks never arrives. So the mailbox tells all
// open requests when the connection is a new one.
//
// The last token of a reply subject is random: bridges answer to the inbox that a request names,
// so a client that could guess another client's inbox could send it answers.
import { ClosedConnectionError, createInbox } from "@nats-io/nats-core";
import { Bell } from "./bell.js";
import { unbundled } from "./bundle.js";
import { code, denial, errorOf, isDenial } from "./errors.js";
import { Message } from "./message.js";

/**
 * A request that waits for answers.
 * @typedef {object} Addressee
 * @property {(m: Message) => void} deliver
 * @property {() => void} reconnect an answer to what was sent before may be lost
 * @property {(cause: Error) => void} fail no answer will come
 * @property {string} subject that it was sent to
 * @property {(cause: import("@nats-io/nats-core").PermissionViolationError, certain: boolean) => void} deny the server does not let it pass; certain: this one, and no other with its subject
 */

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
const tokenBytes = 16;
/** Random bytes for some tokens: a call for each would take longer than all else that a push does. */
const pool = new Uint8Array(256 * tokenBytes);
let used = pool.length;

/** How long the answer to a request that has been stopped is waited for. */
const lastAnswers = 5000;

/** 128 random bits as a token of a subject. */
export function randomToken() {
  if (used === pool.length) {
    crypto.getRandomValues(pool);
    used = 0;
  }
  let token = "";
  for (const end = used + tokenBytes; used < end; used++) token += hex[pool[used] ?? 0];
  return token;
}

/**
 * A request that is not sent yet.
 * @typedef {object} Waiting
 * @property {Request} request
 * @property {string} reply
 * @property {Bell} bell
 * @property {boolean} sent
 * @property {Error} [trouble] why it was not sent
 */

/** @typedef {{op: string, queue: string, subject: string, headers?: import("@nats-io/nats-core").MsgHdrs, body: Uint8Array}} Request */

export class Mailbox {
  /** @type {Map<string, Addressee>} */
  #open = new Map();
  /** @type {import("@nats-io/nats-core").Subscription | undefined} */
  #subscription;
  #prefix;
  /** The ends of requests that have been stopped before their answers. @type {Set<Promise<void>>} */
  #ending = new Set();
  /** Called when their answers arrive, by token. @type {Map<string, () => void>} */
  #unwanted = new Map();
  /** Requests that wait until they may be sent, in their order. @type {Set<Waiting>} */
  #waiting = new Set();
  /** Whether the server has let the mailbox receive answers on this connection. */
  #admitted = false;
  /** Whether the server is being asked for that. */
  #asking = false;
  /** @type {import("@nats-io/nats-core").PermissionViolationError | undefined} */
  #refusal;
  /** @type {Error | undefined} why there will be no connection any more */
  #closed;
  /** Called when a connection is lost. @type {Set<() => void>} */
  disconnected = new Set();
  /** Whether pops for good can be confirmed on this connection, by queue. @type {Map<string, boolean>} */
  confirms = new Map();

  /**
   * @param {import("@nats-io/nats-core").NatsConnection} nc
   * @param {string} inboxPrefix
   * @param {import("./subjects.js").AckSubjects} acks
   */
  constructor(nc, inboxPrefix, acks) {
    this.nc = nc;
    this.acks = acks;
    this.#prefix = `${createInbox(inboxPrefix)}.`;
    /** Whether there is a connection. */
    this.connected = nc.info !== undefined;
    void this.#watch();
  }

  /**
   * A new reply subject. Messages on it go to the addressee until stop is called, and says whether the answer is there.
   * @param {Addressee} addressee
   */
  receive(addressee) {
    const token = randomToken();
    this.#open.set(token, addressee);
    const stop = (answered = true) => {
      if (this.#open.delete(token) && !answered && this.#admitted) this.#end(this.#late(token));
    };
    return { reply: this.#prefix + token, stop };
  }

  /**
   * Waits for an answer that nobody wants any more: what it leases goes back.
   * @param {string} token
   */
  async #late(token) {
    await new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
      this.#unwanted.set(token, resolve);
      /** @type {unknown} */
      const timer = setTimeout(resolve, lastAnswers);
      /** @type {{unref?: () => void}} */ (timer).unref?.(); // in browsers a timer is a number
    });
    this.#unwanted.delete(token);
  }

  /** @param {Promise<void>} ending of a request that has been stopped */
  #end(ending) {
    this.#ending.add(ending);
    void ending.then(() => this.#ending.delete(ending));
  }

  /**
   * The same for a request that waits, with a subscription of its own: while there is one the bridge
   * takes it that somebody waits. stop says whether the answer is there. If it is not, one that is
   * under way still goes to the addressee.
   * @param {Addressee} addressee
   * @param {{op: string, queue: string}} request
   */
  wait(addressee, request) {
    const key = `w.${randomToken()}`;
    const reply = this.#prefix + key;
    /** @type {import("@nats-io/nats-core").MsgCallback<import("@nats-io/nats-core").Msg>} */
    const callback = (err, m) => {
      if (!err) addressee.deliver(Message.from(m));
      else if (isDenial(err)) addressee.deny(err, true);
      else addressee.fail(err);
    };
    const subscription = this.#subscribed(reply, callback, request);
    this.#open.set(key, addressee);
    const stop = (answered = false) => {
      if (!this.#open.delete(key) || subscription.isClosed()) return;
      if (answered) return subscription.unsubscribe();
      this.#end(subscription.drain().catch(() => {})); // no connection, no answer under way
    };
    return { reply, stop };
  }

  /**
   * @param {string} subject
   * @param {import("@nats-io/nats-core").MsgCallback<import("@nats-io/nats-core").Msg>} callback
   * @param {{op: string, queue: string}} request
   */
  #subscribed(subject, callback, request) {
    try {
      return this.nc.subscribe(subject, { callback });
    } catch (cause) {
      throw closed(request, cause);
    }
  }

  /** Waits until requests that have been stopped get no answer any more, and these have gone back. */
  async quiet() {
    if (this.#ending.size === 0) return;
    await Promise.all(this.#ending);
    await this.nc.flush().catch(() => {}); // without a connection nothing arrives
  }

  /** Subscribes, and waits for the server's next word. */
  async #ask() {
    if (this.#asking || !this.connected || this.#closed) return;
    this.#asking = true;
    this.#refusal = undefined;
    try {
      if (!this.#subscription || this.#subscription.isClosed()) this.#subscribe();
      await this.nc.flush();
      this.#admitted = this.connected && !this.#refusal;
    } catch (cause) {
      // Otherwise the connection is gone, and the next one begins anew.
      if (this.nc.isDraining()) for (const waiting of this.#waiting) this.#leave(waiting, closed(waiting.request, cause));
    }
    this.#asking = false;
    if (!this.#admitted && !this.#refusal) return;
    for (const waiting of this.#waiting) this.#leave(waiting, this.#refusal && denial(waiting.request, this.#refusal));
  }

  #subscribe() {
    const subject = `${this.#prefix}*`;
    this.#subscription = this.nc.subscribe(subject, {
      callback: (err, m) => {
        if (err) this.#refuse(err);
        else this.#deliver(m, m.subject.slice(this.#prefix.length));
      },
    });
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
    this.#unwanted.get(token)?.();
  }

  /**
   * Returns the item of a late answer to its queue, so that others need not wait for its lease to
   * run out. If that fails, the lease does run out.
   * @param {Message} m
   */
  giveBack(m) {
    const ack = m.isItem ? this.acks.of(undefined, m) : "";
    if (ack) this.back(ack);
  }

  /** @param {string} ack subject of a lease that ends unused */
  back(ack) {
    try {
      this.nc.publish(ack, "+BACK"); // nobody has begun with it
    } catch {
      // the connection is closed
    }
  }

  /**
   * The server does not let the mailbox receive answers, from the beginning or any more.
   * @param {Error} cause
   */
  #refuse(cause) {
    this.#admitted = false;
    if (isDenial(cause)) this.#refusal = cause;
    this.#fail(cause);
  }

  /** Follows the connection until it is closed for good. */
  async #watch() {
    for await (const status of this.nc.status()) {
      if (status.type === "disconnect") {
        this.connected = this.#admitted = false;
        for (const tell of this.disconnected) tell();
      }
      if (status.type === "error") this.#deny(status.error);
      if (status.type !== "reconnect") continue;
      this.connected = true;
      this.#admitted = false;
      this.confirms.clear();
      for (const addressee of [...this.#open.values()]) addressee.reconnect();
      if (this.#subscription || this.#waiting.size > 0) void this.#ask();
    }
    const cause = await this.nc.closed();
    this.connected = this.#admitted = false;
    this.#closed = Object.assign(new ClosedConnectionError(), { cause });
    for (const waiting of this.#waiting) this.#leave(waiting, this.#closed);
    this.#fail(this.#closed);
  }

  /** Whether a request can be sent now. */
  get admitted() {
    return this.#admitted;
  }

  /**
   * Sends a request when it may be sent: behind those that wait already, so requests keep their
   * order. It says false if the deadline came first.
   * @param {Request} request
   * @param {string} reply
   * @param {import("./bell.js").Deadline} deadline
   */
  async send(request, reply, deadline) {
    if (this.#closed) throw this.#closed;
    if (this.#admitted) {
      this.#publish(request, reply);
      return true;
    }
    /** @type {Waiting} */
    const waiting = { request, reply, bell: new Bell(), sent: false };
    this.#waiting.add(waiting);
    void this.#ask();
    while (this.#waiting.has(waiting) && !deadline.over) await waiting.bell.wait(deadline.left, deadline.signal);
    this.#waiting.delete(waiting);
    if (waiting.trouble) throw waiting.trouble;
    return waiting.sent;
  }

  /**
   * Sends a request that has waited, unless there is trouble.
   * @param {Waiting} waiting
   * @param {Error} [trouble]
   */
  #leave(waiting, trouble) {
    this.#waiting.delete(waiting);
    waiting.trouble = trouble;
    try {
      if (!trouble) this.#publish(waiting.request, waiting.reply);
      waiting.sent = !trouble;
    } catch (err) {
      waiting.trouble = /** @type {Error} */ (err);
    }
    waiting.bell.ring();
  }

  /**
   * The server says which subject a client may not publish to, and not which message that was.
   * @param {Error} cause
   */
  #deny(cause) {
    if (!isDenial(cause) || cause.operation !== "publish") return;
    const all = [...this.#open.values()].filter(({ subject }) => subject === cause.subject);
    for (const addressee of all) addressee.deny(cause, all.length === 1);
  }

  /** @param {Error} cause */
  #fail(cause) {
    for (const addressee of [...this.#open.values()]) addressee.fail(cause);
  }

  /**
   * A failure says that the request was not sent.
   * @param {Request} request
   * @param {string} reply
   */
  #publish({ op, queue, subject, headers, body }, reply) {
    const most = this.nc.info?.max_payload ?? Infinity;
    const size = body.length + headersSize(headers);
    if (size > most) throw errorOf({ op, queue, code: code.tooLarge, text: `${size} bytes: the NATS server takes ${most}` });
    try {
      this.nc.publish(subject, body, headers ? { reply, headers } : { reply });
    } catch (cause) {
      throw closed({ op, queue }, cause);
    }
  }
}

/**
 * @param {{op: string, queue: string}} request
 * @param {unknown} cause
 */
const closed = ({ op, queue }, cause) => errorOf({ op, queue, code: code.unavailable, text: `the connection to NATS is closed: ${/** @type {Error} */ (cause).message}`, cause });

/**
 * The bytes of headers as nats.js writes them.
 * @param {import("@nats-io/nats-core").MsgHdrs | undefined} headers
 */
export function headersSize(headers) {
  return headers ? new TextEncoder().encode(String(headers)).length : 0;
}
