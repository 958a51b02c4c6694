// When a refused request is sent again.
import { now, pause } from "./bell.js";

import { noBridge } from "./errors.js";

const firstDelay = 20;
const lastDelay = 1000;

/** Without a bridge: another one may take over at any time, and the question costs none of them anything. */
const lastAwayDelay = 150;

/**
 * How long to wait after the nth failure: about twice as long as after the one before, and
 * random, so that requests that failed together are not repeated together.
 * @param {number} n
 * @param {number} first
 * @param {number} last
 */
export function backoff(n, first, last) {
  const ms = Math.min(last, first * 2 ** Math.min(n - 1, 60));
  return ms / 2 + Math.random() * ms;
}

/** Counts how often a request was refused, and since when. */
export class Retry {
  #refusals = 0;
  #since = 0;

  /**
   * Counts a refusal and says whether the request may be sent again.
   * @param {number} retryFor how long to repeat; 0: until the deadline
   */
  allowed(retryFor) {
    if (++this.#refusals === 1) this.#since = now();
    return retryFor === 0 || now() - this.#since < retryFor;
  }

  /**
   * Waits before the next attempt. It says false if the deadline came first.
   * @param {import("./bell.js").Deadline} deadline
   * @param {import("./errors.js").PQError} [why]
   */
  async wait(deadline, why) {
    const ms = backoff(this.#refusals, firstDelay, why?.text === noBridge ? lastAwayDelay : lastDelay);
    await pause(Math.min(ms, deadline.left), deadline.signal);
    return !deadline.over;
  }
}
