// The messages that answer a pop or a peek, whichever of its attempts they answer: a repeated
// pop gives the same items under the same leases.
import { unbundled } from "./bundle.js";

/** For how long a lease that the caller has got is not given back, if an earlier attempt that has it, too, is answered late. */
const lateFor = 10 * 60_000;

/**
 * Two answers with one lease may have different subjects.
 * @param {import("./message.js").Message} m
 */
const leaseOf = (m) => `${m.get("PQ-Id")} ${m.get("PQ-Fence")}`;

export class Answers {
  /** @type {{message: import("./message.js").Message, attempt: number}[]} */
  #here = [];
  #attempts = 0;
  #closed = false;
  /** @type {(() => void)[]} */
  #stops = [];
  /** Leases that the caller has got from a repeated request. */
  #leases = new Set();
  /** Whether the connection is a new one. */
  lost = false;
  /** @type {Error | undefined} why no answer will come */
  broken;
  /** @type {{cause: import("@nats-io/nats-core").PermissionViolationError, certain: boolean} | undefined} */
  denied;

  /**
   * @param {import("./mailbox.js").Mailbox} mailbox
   * @param {import("./bell.js").Bell} bell rung when something has changed
   */
  constructor(mailbox, bell) {
    this.mailbox = mailbox;
    this.bell = bell;
  }

  /**
   * The reply subject of another attempt.
   * @param {{op: string, queue: string, subject: string}} request
   */
  attempt(request) {
    const attempt = ++this.#attempts;
    const { reply, stop } = this.mailbox.receive({
      subject: request.subject,
      deliver: (m) => this.#add(m, attempt),
      reconnect: () => {
        this.lost = true;
        this.bell.ring();
      },
      fail: (cause) => {
        this.broken ??= cause;
        this.bell.ring();
      },
      deny: (cause, certain) => {
        this.denied ??= { cause, certain };
        this.bell.ring();
      },
    });
    this.#stops.push(stop);
    return reply;
  }

  /**
   * @param {import("./message.js").Message} m
   * @param {number} attempt
   */
  #add(m, attempt) {
    for (const message of unbundled(m)) {
      if (this.#closed) this.#giveBack(message);
      else this.#here.push({ message, attempt });
    }
    this.bell.ring();
  }

  /** The next message, and whether it answers an earlier attempt; undefined when there is none yet. */
  next() {
    const first = this.#here.shift();
    return first && { m: first.message, late: first.attempt < this.#attempts };
  }

  /**
   * Notes that the caller gets the item of a message. It says false if the caller has it already.
   * @param {import("./message.js").Message} m
   */
  got(m) {
    if (this.#attempts < 2) return true; // no other answer has its lease
    const lease = leaseOf(m);
    if (this.#leases.has(lease)) return false;
    this.#leases.add(lease);
    return true;
  }

  /** Gives back the items that the caller has not got, and those that arrive later. */
  close() {
    this.#closed = true;
    for (const { message } of this.#here) this.#giveBack(message);
    this.#here = [];
    const stop = () => {
      for (const one of this.#stops) one();
    };
    if (this.#leases.size === 0) return stop();
    /** @type {unknown} */
    const timer = setTimeout(stop, lateFor);
    // A program need not stay for that. In browsers a timer is a number.
    /** @type {{unref?: () => void}} */ (timer).unref?.();
  }

  /** @param {import("./message.js").Message} m */
  #giveBack(m) {
    if (!this.#leases.has(leaseOf(m))) this.mailbox.giveBack(m);
  }
}
