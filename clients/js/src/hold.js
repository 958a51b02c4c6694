// Extends a lease while its holder works.
import { Bell, now } from "./bell.js";
import { code, errorOf, LeaseLostError, NotLeasedError, SettledError } from "./errors.js";

/**
 * Extends the item's lease until stop is called, the item is settled or the outer signal aborts.
 * @param {import("./item.js").Item} item
 * @param {AbortSignal} [outer]
 */
export function hold(item, outer) {
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
  if (outer?.aborted) cut();
  outer?.addEventListener("abort", cut);
  const stop = () => {
    outer?.removeEventListener("abort", cut);
    extending.stop();
  };
  void extending.run();
  return { signal: work.signal, stop };
}

class Extending {
  #stopped = false;
  #bell = new Bell();
  /** @type {AbortController | undefined} of an extension under way */
  #call;

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
    this.#bell.ring();
    this.#call?.abort();
  }

  async run() {
    const { item, lose } = this;
    const { every, lasts } = extendInterval(item);
    for (let end = now() + lasts; ; ) {
      if (!this.#stopped) await this.#bell.wait(every);
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
        if (err instanceof LeaseLostError) return lose(err);
        if (now() >= end) return lose(notExtended(item, err));
      }
    }
  }
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
