// A request that is answered by one message.
import { reads, repeats } from "./again.js";
import { Bell, now } from "./bell.js";
import { code, denial, deniedText, errorOf, inDoubt, isDenial, mayRepeat, PQError, refusalIn } from "./errors.js";
import { Retry } from "./retry.js";

const longestPatience = 60_000;

/**
 * How long to wait for an answer that another attempt does not bring sooner, at first: that of a pop that waits, and that of a
 * question that is asked once. Given up, a late answer costs more than the wait for it: it may be a lease.
 * @param {{attempt: number}} patience
 */
export const late = ({ attempt }) => 5 * attempt;

/** For so long attempts follow each other closely: what one node leaves unanswered, the node that takes over answers. */
const takeoverFor = 1000;

/**
 * How long to wait for the next answer. A slow bridge may need more time.
 * @param {number} patience
 */
export const longer = (patience) => Math.min((patience < takeoverFor ? 1.25 : 2) * patience, longestPatience);

/** Why a request was never sent, by the name of the cause. */
const notSent = new Map([
  ["TimeoutError", "it was not sent: there was no connection to NATS, or earlier requests have no answer"],
  ["ClosedConnectionError", "the connection to NATS is closed"],
]);

/**
 * The error of a request whose time is up. It has the last refusal if there is one, because that
 * says more.
 * @param {{op: string, queue: string, sent: number}} request
 * @param {PQError | undefined} refusal
 * @param {unknown} cause
 * @returns {unknown}
 */
export function ended({ op, queue, sent }, refusal, cause) {
  if (refusal) return refusal;
  if (sent > 0) return errorOf({ op, queue, code: code.unknownResult, text: isDenial(cause) ? `no answer: ${deniedText(cause, "")}` : "no answer", cause });
  const away = cause instanceof Error && notSent.get(cause.name);
  return away ? errorOf({ op, queue, code: code.unavailable, text: away, cause }) : cause;
}

/**
 * The error of a request that the mailbox did not send: the connection is closed, the server does
 * not let answers arrive, or the request is too large.
 * @param {{op: string, queue: string, sent: number}} request
 * @param {PQError | undefined} refusal
 * @param {unknown} err
 */
export const notSentFor = (request, refusal, err) => (err instanceof PQError ? err : ended(request, refusal, err));

export class Call {
  /** How often it was sent. */
  sent = 0;
  /** How many of these were answered. */
  answered = 0;
  /** @type {PQError | undefined} the last one */
  refusal;
  retry = new Retry();
  /** Rung when something has changed. */
  bell = new Bell();
  /** @type {(() => void) | undefined} called when its first attempt is answered, or given up */
  landed;

  /**
   * @param {object} request
   * @param {string} request.op as errors name it
   * @param {string} [request.does] the operation, where that is another name
   * @param {string} [request.queue]
   * @param {string} request.subject
   * @param {import("@nats-io/nats-core").MsgHdrs} [request.headers]
   * @param {Uint8Array} [request.body]
   * @param {boolean} [request.repeatable] doing it twice is like doing it once, whatever again.js says of the operation: it has an id, say
   */
  constructor({ op, does = op, queue = "", subject, headers, body = new Uint8Array(0), repeatable = false }) {
    this.op = op;
    this.queue = queue;
    this.subject = subject;
    this.headers = headers;
    this.body = body;
    this.reads = reads.has(does);
    this.repeatable = repeatable || this.reads || repeats.has(does);
  }

  /** Whether an attempt without an answer may still change something. */
  get open() {
    return this.sent > this.answered && !this.reads;
  }

  /**
   * Sends the request, repeats it if necessary, and returns its answer. The first attempt is
   * sent before this returns, so requests keep their order.
   * @param {import("./client.js").Client} client
   * @param {import("./bell.js").Deadline} deadline
   * @returns {Promise<import("./message.js").Message>}
   */
  async send({ mailbox, patience: { attempt, retryFor } }, deadline) {
    const { bell } = this;
    /** @type {import("./message.js").Message | undefined} */
    let answer;
    /** @type {Error | undefined} */
    let broken;
    /** @type {PQError | undefined} */
    let denied;
    let lost = false;
    const { reply, stop } = mailbox.receive({
      subject: this.subject,
      deny: (cause, certain) => {
        denied ??= denial(this, cause);
        if (certain) this.answered++;
        bell.ring();
      },
      deliver: (m) => {
        answer ??= m; // one is enough; the first attempt's may come late
        bell.ring();
      },
      reconnect: () => {
        lost = true;
        bell.ring();
      },
      fail: (cause) => {
        broken ??= cause;
        bell.ring();
      },
    });
    /** @param {unknown} err */
    const final = (err) => inDoubt(err, this.open);
    try {
      for (let patience = attempt; ; ) {
        if (broken || deadline.over) throw final(ended(this, this.refusal, broken ?? deadline.cause));
        let sent;
        try {
          sent = await mailbox.send(this, reply, deadline);
        } catch (err) {
          throw final(notSentFor(this, this.refusal, err));
        }
        if (!sent) throw final(ended(this, this.refusal, deadline.cause));
        this.sent++;
        lost = false;
        const until = this.repeatable ? now() + patience : Infinity;
        while (!answer && !broken && !denied && !(lost && this.repeatable) && now() < until && !deadline.over) {
          await bell.wait(Math.min(until - now(), deadline.left), deadline.signal);
        }
        if (!answer) {
          if (denied) throw final(denied);
          if (broken || deadline.over) throw final(ended(this, this.refusal, broken ?? deadline.cause));
          patience = longer(patience);
          continue;
        }
        const m = answer;
        answer = undefined;
        this.landed?.();
        const e = refusalIn(m, this.op, this.queue);
        if (e?.code !== code.unknownResult) this.answered++;
        if (!e) return m;
        this.refusal = e;
        if (!mayRepeat(e, this.repeatable) || !this.retry.allowed(retryFor) || !(await this.retry.wait(deadline, e))) throw final(e);
      }
    } finally {
      stop();
      this.landed?.();
    }
  }
}
