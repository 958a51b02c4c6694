import { Deadline } from "./bell.js";
import { maxBundle } from "./bundle.js";
import { ended, Call } from "./call.js";
import { cluster } from "./cluster.js";
import { duration, shown } from "./duration.js";
import { count } from "./integer.js";
import { InFlight } from "./inflight.js";
import { Item } from "./item.js";
import { readJSON, writeJSON } from "./json.js";
import { Lanes } from "./lane.js";
import { Mailbox } from "./mailbox.js";
import { bytes } from "./message.js";
import { abortSignal, callOptions, checked } from "./options.js";
import { Queue } from "./queue.js";
import { AckSubjects, Grammar } from "./subjects.js";
import { code, errorOf, unreadable } from "./errors.js";

const defaults = { prefix: "pq", timeout: 10_000, maxInFlight: 4096, attempt: 400, absence: 5000, page: 200 };

const mostMixed = 10_000;
const mostUnheard = 10_000;

/** The client of one NATS connection. index.d.ts says what its functions do. */
export class Client {
  #inFlight;
  /** The queues to which the program has pushed without a priority in the subject: it may, so its pushes of several priorities may go together. @type {Set<string>} */
  mixed = new Set();
  /** Subjects of notices that the user may not hear: no consumer tries again. @type {Set<string>} */
  unheard = new Set();

  /**
   * @param {import("@nats-io/nats-core").NatsConnection} nc
   * @param {import("../index.js").ClientOptions} [given]
   */
  constructor(nc, given) {
    if (typeof nc?.publish !== "function" || typeof nc.status !== "function") {
      throw new TypeError(`the connection is ${shown(nc)}: expected one of @nats-io/transport-node's connect, or of @nats-io/nats-core's wsconnect`);
    }
    const options = checked(given, "Client", ["prefix", "bridgePrefix", "timeout", "retryFor", "askAgainAfter", "maxInFlight", "maxBundle", "inboxPrefix"]);
    this.connection = nc;
    this.grammar = new Grammar(options.prefix ?? defaults.prefix);
    this.acks = new AckSubjects(this.grammar, options.bridgePrefix === undefined ? this.grammar : new Grammar(options.bridgePrefix));
    this.patience = {
      timeout: duration(options.timeout ?? defaults.timeout, "timeout"),
      retryFor: duration(options.retryFor ?? 0, "retryFor", { zero: true }),
      attempt: duration(options.askAgainAfter ?? defaults.attempt, "askAgainAfter"),
      absence: defaults.absence,
    };
    this.#inFlight = new InFlight(count(options.maxInFlight ?? defaults.maxInFlight, "maxInFlight"));
    this.lanes = new Lanes(this, count(options.maxBundle ?? maxBundle, "maxBundle", maxBundle));
    // The connection knows its inbox prefix, and has no function that tells it.
    const inbox = options.inboxPrefix ?? /** @type {any} */ (nc).options?.inboxPrefix ?? "_INBOX";
    this.mailbox = new Mailbox(nc, inbox, this.acks);
  }

  /** @param {string} name */
  queue(name) {
    return new Queue(this, name);
  }

  /** @param {string} ackSubject */
  attach(ackSubject) {
    const lease = typeof ackSubject === "string" ? this.acks.read(ackSubject) : undefined;
    if (!lease) throw new TypeError(`subject ${shown(ackSubject)}: expected one that settles a lease`);
    return Item.attached(this.queue(lease.queue), lease.subject);
  }

  /** @param {import("../index.js").CallOptions} [given] */
  async flush(given) {
    const deadline = this.deadline(checked(given, "flush", callOptions));
    if (!(await this.#inFlight.flush(deadline))) throw deadline.cause;
  }

  /** @param {import("../index.js").CallOptions & {prefix?: string}} [given] */
  async *queues(given) {
    const { prefix, ...options } = checked(given, "queues", ["prefix", ...callOptions]);
    for (let after = ""; ; ) {
      const body = writeJSON({ limit: defaults.page, after, prefix: prefix || undefined });
      const page = await this.ask({ op: "queues", subject: this.grammar.system("list"), body }, options);
      if (!Array.isArray(page.queues)) throw unreadable("queues", "", bytes(JSON.stringify(page)));
      for (const name of page.queues) yield /** @type {string} */ (name);
      if (typeof page.next !== "string" || page.next === "") return;
      after = page.next;
    }
  }

  /** @param {import("../index.js").CallOptions} [given] */
  async system(given) {
    const options = checked(given, "system", callOptions);
    return this.ask({ op: "system", subject: this.grammar.system("info") }, options);
  }

  /** @param {import("../index.js").CallOptions} [given] */
  async history(given) {
    const options = checked(given, "history", callOptions);
    return (await this.ask({ op: "system", subject: this.grammar.system("info"), body: writeJSON({ history: true }) }, options)).history;
  }

  /** @param {import("../index.js").CallOptions} [options] */
  async cluster(options) {
    return cluster(this, options);
  }

  /** @param {import("../index.js").CallOptions & {node?: string}} [given] */
  async stepDown(given) {
    const { node, ...options } = checked(given, "stepDown", ["node", ...callOptions]);
    const body = writeJSON({ node });
    return this.ask({ op: "stepDown", subject: this.grammar.system("cluster.step-down"), body }, options);
  }

  /** @param {import("../index.js").CallOptions & {old: string, new: string}} given */
  async replaceNode(given) {
    const { old, new: by, ...options } = checked(given, "replaceNode", ["old", "new", ...callOptions]);
    return this.ask({ op: "replaceNode", subject: this.grammar.system("cluster.replace"), body: writeJSON({ old, new: by }) }, options);
  }

  /**
   * The deadline of an operation.
   * @param {import("../index.js").CallOptions} options
   * @param {number} [more] milliseconds on top of the client's own timeout
   */
  deadline({ timeout, signal }, more = 0) {
    return new Deadline(timeout === undefined ? this.patience.timeout + more : duration(timeout, "timeout"), abortSignal(signal));
  }

  /** @param {string} queue to which the program may push without a priority in the subject */
  mixes(queue) {
    if (this.mixed.size === mostMixed) this.mixed.clear();
    this.mixed.add(queue);
  }

  /** @param {string} subject of notices, to which the server does not let the user subscribe */
  mayNotHear(subject) {
    if (this.unheard.size === mostUnheard) this.unheard.clear();
    this.unheard.add(subject);
  }

  /**
   * Sends a push when there is room for it.
   * @template T
   * @param {Call} call
   * @param {number} size
   * @param {import("../index.js").CallOptions} options
   * @param {(deadline: Deadline) => Promise<T>} send
   */
  async inFlight(call, size, options, send) {
    const deadline = this.deadline(options);
    if (!this.#inFlight.tryAcquire(size) && !(await this.#inFlight.acquire(size, deadline))) {
      const { op, queue } = call;
      if (deadline.cause?.name !== "TimeoutError") throw ended(call, undefined, deadline.cause);
      throw errorOf({ op, queue, code: code.unavailable, text: "there was no room for the push: maxInFlight of them, or 16 MiB, wait for their answers", cause: deadline.cause });
    }
    try {
      return await send(deadline);
    } finally {
      this.#inFlight.release(size);
    }
  }

  /**
   * Sends a request that is answered by a JSON object.
   * @param {{op: string, queue?: string, subject: string, body?: string, does?: string, repeatable?: boolean}} request
   * @param {import("../index.js").CallOptions} options
   * @returns {Promise<any>}
   */
  async ask({ body = "", ...request }, options) {
    const m = await new Call({ ...request, body: bytes(body) }).send(this, this.deadline(options));
    try {
      return readJSON(m.data);
    } catch (cause) {
      throw unreadable(request.op, request.queue ?? "", m.data, cause);
    }
  }
}
