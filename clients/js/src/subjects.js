// The grammar of subjects, as docs/protocol.md lists them.
import { shown } from "./duration.js";

const name = /^[A-Za-z0-9_-]+$/;
const longestPrefix = 128;
const longestQueue = 64;
const longestID = 128;
const longestName = 64;
const deadSuffix = "-dead";

/**
 * The name of a queue's default dead-letter queue.
 * @param {string} queue
 */
export const deadLetter = (queue) => queue + deadSuffix;

/** @param {unknown} prefix */
function checkPrefix(prefix) {
  const fits = typeof prefix === "string" && prefix.length <= longestPrefix && !prefix.startsWith("_") && prefix.split(".").every((token) => name.test(token));
  if (!fits) {
    throw new TypeError(`prefix ${shown(prefix)}: expected tokens of A-Z a-z 0-9 - _ joined by dots, not starting with _, at most ${longestPrefix} bytes in all`);
  }
}

/** @param {unknown} queue */
export function checkQueue(queue) {
  const most = typeof queue === "string" && queue.endsWith(deadSuffix) ? longestQueue + deadSuffix.length : longestQueue;
  if (typeof queue !== "string" || !name.test(queue) || queue.startsWith("_") || queue.length > most) {
    throw new TypeError(
      `queue name ${shown(queue)}: expected 1 to ${longestQueue} of A-Z a-z 0-9 - _, not starting with _ (${longestQueue + deadSuffix.length} when it ends in ${deadSuffix})`,
    );
  }
}

/** @param {unknown} id */
export function checkID(id) {
  if (typeof id !== "string" || !name.test(id) || id.length > longestID) {
    throw new TypeError(`id ${shown(id)}: expected 1 to ${longestID} of A-Z a-z 0-9 - _`);
  }
}

/**
 * The name of a schedule, a source or a link.
 * @param {string} what
 * @param {unknown} given
 */
export function checkName(what, given) {
  if (typeof given !== "string" || !name.test(given) || given.length > longestName) {
    throw new TypeError(`${what} name ${shown(given)}: expected 1 to ${longestName} of A-Z a-z 0-9 - _`);
  }
}

/** Subjects under one prefix. */
export class Grammar {
  /** @param {string} prefix */
  constructor(prefix) {
    checkPrefix(prefix);
    this.prefix = prefix;
  }

  /**
   * @param {string} queue
   * @param {string} verb with what follows it
   */
  subject(queue, verb) {
    checkQueue(queue);
    return `${this.prefix}.${queue}.${verb}`;
  }

  /** @param {string} what */
  system(what) {
    return `${this.prefix}._sys.${what}`;
  }

  /**
   * What settles a lease, undefined if the subject does not.
   * @param {string} subject
   */
  lease(subject) {
    if (!subject.startsWith(`${this.prefix}.`)) return undefined;
    const [queue = "", verb, conn, token, ...more] = subject.slice(this.prefix.length + 1).split(".");
    if (verb !== "ack" || more.length > 0 || !name.test(conn ?? "") || !name.test(token ?? "")) return undefined;
    try {
      checkQueue(queue);
    } catch {
      return undefined;
    }
    return { queue, verb: `ack.${conn}.${token}` };
  }
}

/**
 * The subjects on which a client settles leases. It never publishes a settlement elsewhere: a
 * forged item could otherwise use the client's rights.
 */
export class AckSubjects {
  /**
   * @param {Grammar} own
   * @param {Grammar} bridge as the bridge writes them
   */
  constructor(own, bridge) {
    this.own = own;
    this.bridge = bridge;
  }

  /**
   * The subject on which to settle a lease, from the one that the bridge has written, or from
   * one that read has returned; undefined if it settles none.
   * @param {string} subject
   */
  read(subject) {
    const lease = this.own.lease(subject) ?? this.bridge.lease(subject);
    return lease && { queue: lease.queue, subject: this.own.subject(lease.queue, lease.verb) };
  }

  /**
   * The subject as the bridge writes it, from one that read has returned.
   * @param {string} own
   */
  written(own) {
    const lease = this.own.lease(own);
    if (!lease) throw new TypeError(`subject ${shown(own)}: expected one that settles a lease`);
    return this.bridge.subject(lease.queue, lease.verb);
  }

  /**
   * The subject that settles an item's lease: the reply subject, or PQ-Ack if the item has come
   * through another account. It is "" if neither is an ack subject of the queue. An undefined
   * queue allows any.
   * @param {string | undefined} queue
   * @param {import("./message.js").Message} m
   */
  of(queue, m) {
    const acks = m.headers.get("PQ-Ack") ?? [];
    for (const subject of acks.length === 1 ? [m.reply, ...acks] : [m.reply]) {
      const lease = this.read(subject);
      if (lease && (queue === undefined || lease.queue === queue)) return lease.subject;
    }
    return "";
  }
}
