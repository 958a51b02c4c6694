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
  /** Whether the last attempt has its whole answer. */
  whole = false;
  /** @type {((answered: boolean) => void)[]} */
  #stops = [];
  #waits;
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
   * @param {boolean} waits whether the requests wait at the bridge
   */
  constructor(mailbox, bell, waits) {
    this.mailbox = mailbox;
    this.bell = bell;
    this.#waits = waits;
  }

  /**
   * The reply subject of another attempt. Nobody waits for the earlier ones any more.
   * @param {{op: string, queue: string, subject: string}} request
   */
  attempt(request) {
    if (this.#waits) this.#stop();
    const attempt = ++this.#attempts;
    this.whole = false;
    /** @type {import("./mailbox.js").Addressee} */
    const addressee = {
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
    };
    const { reply, stop } = this.#waits ? this.mailbox.wait(addressee, request) : this.mailbox.receive(addressee);
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
    if (this.#attempts < 2 || !m.isItem) return true; // no other answer has its lease
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
    if (this.#waits || this.#leases.size === 0) return this.#stop();
    /** @type {unknown} */
    const timer = setTimeout(() => this.#stop(), lateFor);
    // A program need not stay for that. In browsers a timer is a number.
    /** @type {{unref?: () => void}} */ (timer).unref?.();
  }

  #stop() {
    for (const stop of this.#stops.splice(0)) stop(this.whole || this.denied !== undefined || this.broken !== undefined);
  }

  /** @param {import("./message.js").Message} m */
  #giveBack(m) {
    if (!this.#leases.has(leaseOf(m))) this.mailbox.giveBack(m);
  }
}
