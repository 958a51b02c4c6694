// Extends a lease while its holder works.
import { Bell, now } from "./bell.js";
import { cancelled, code, errorOf, ItemCancelledError, LeaseLostError, NotLeasedError, SettledError } from "./errors.js";

/** How often notices may extend a lease, in milliseconds. */
const hurryEvery = 1000;

/**
 * Extends the item's lease until stop is called, the item is settled or the outer signal aborts.
 * @param {import("./item.js").Item} item
 * @param {AbortSignal} [outer]
 * @param {import("./notices.js").Notices} [notices]
 */
export function hold(item, outer, notices) {
  if (!item.leased) throw new NotLeasedError();
  const work = new AbortController(); // what the work on the item sees
  const extending = new Extending(item, (why) => {
    stop();
    work.abort(why);
  });
  const cut = () => {
    work.abort(outer?.reason);
    extending.stop();
  };
  const stop = () => {
    outer?.removeEventListener("abort", cut);
    extending.stop();
  };
  extending.leave = notices?.enter(item, extending);
  if (outer?.aborted) cut();
  outer?.addEventListener("abort", cut);
  void extending.run();
  return { signal: work.signal, stop };
}

class Extending {
  #stopped = false;
  #bell = new Bell();
  /** @type {AbortController | undefined} of an extension under way */
  #call;
  /** Whether a notice has come since the last extension began. */
  #hurries = false;
  /** When an extension last began because of a notice. */
  #hurried = -Infinity;
  /** @type {import("./notices.js").Notice | undefined} the last one about this lease */
  #notice;
  /** @type {(() => void) | undefined} hears no notices any more */
  leave;

  /**
   * @param {import("./item.js").Item} item
   * @param {(why: Error) => void} lose
   */
  constructor(item, lose) {
    this.item = item;
    this.lose = lose;
  }

  stop() {
    this.#stopped = true;
    this.leave?.();
    this.#bell.ring();
    this.#call?.abort();
  }

  /**
   * The lease may be lost: only an extension tells.
   * @param {import("./notices.js").Notice} [notice] if it is about this lease
   */
  hear(notice) {
    this.#notice = notice ?? this.#notice;
    this.#hurries = true;
    this.#bell.ring();
  }

  /**
   * Waits for the time of the next extension.
   * @param {number} every
   */
  async #due(every) {
    const due = now() + every;
    for (;;) {
      const at = this.#hurries ? Math.min(due, this.#hurried + hurryEvery) : due;
      if (this.#stopped || now() >= at) break;
      await this.#bell.wait(at - now());
    }
    if (this.#hurries) [this.#hurries, this.#hurried] = [false, now()];
  }

  async run() {
    const { item, lose } = this;
    const { every, lasts } = extendInterval(item);
    for (let end = now() + lasts; ; ) {
      await this.#due(every);
      if (this.#stopped || item.settled) return;
      // An answer that comes after the end of the lease is of no use. But this program may itself
      // have stood still until now, and then only the bridge knows.
      const sent = now();
      const left = end - sent;
      this.#call = new AbortController();
      try {
        await item.extend({ timeout: left > 0 ? left : every, signal: this.#call.signal });
        end = sent + lasts;
      } catch (err) {
        if (this.#stopped || item.settled || err instanceof SettledError) return;
        if (err instanceof LeaseLostError) return lose(lossOf(item, err, this.#notice));
        if (now() >= end) return lose(notExtended(item, err));
      }
    }
  }
}

/**
 * The error of a lost lease. What a bridge has told of it, in a notice or in its answer, says more than the answer alone.
 * @param {import("./item.js").Item} item
 * @param {LeaseLostError} cause the answer to an extension
 * @param {import("./notices.js").Notice} [notice]
 * @returns {LeaseLostError}
 */
function lossOf(item, cause, notice) {
  const told = notice ?? (cause instanceof ItemCancelledError ? { cause: cancelled, reason: cause.why } : undefined);
  if (!told) return cause;
  const says = told.reason ? `${told.cause}: ${told.reason}` : told.cause;
  const about = { op: "extend", queue: item.queue, code: code.leaseLost, cause };
  const lost =
    told.cause === cancelled
      ? new ItemCancelledError({ ...about, reason: cancelled, text: says }, told.reason)
      : new LeaseLostError({ ...about, reason: cause.reason, text: `lease lost: ${says}` });
  lost.message = lost.text; // no request of the program has failed
  return lost;
}

/**
 * The error of a lease that could not be extended in time.
 * @param {import("./item.js").Item} item
 * @param {unknown} cause
 * @returns {Error}
 */
function notExtended(item, cause) {
  return errorOf({ op: "extend", queue: item.queue, code: code.leaseLost, reason: "expired", text: "the lease could not be extended in time", cause });
}

/**
 * How long to wait between two extensions of a lease, and how long after the last one it counts
 * as lost: a lost message or a restart of the bridge must not end it.
 * @param {import("./item.js").Item} item
 */
function extendInterval(item) {
  const parts = 3;
  if (item.leaseTerm > 0) return { every: item.leaseTerm / parts, lasts: item.leaseTerm };
  // Only the bridge knows how long the lease is: the time that is left by the clock of this
  // machine may be wrong.
  const seems = (item.leaseExpires?.getTime() ?? 0) - Date.now();
  const every = Math.min(Math.max(seems / parts, 300), 5000);
  return { every, lasts: Math.max(seems, every * parts) };
}
