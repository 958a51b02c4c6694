// Waiting: for a bell, for a time, and no longer than a deadline.

/** What setTimeout can wait; beyond, it would not wait at all. */
const longestTimer = 2 ** 31 - 1;

/** Milliseconds of a clock that nobody sets. */
export const now = () => performance.now();

/** A bell keeps one ring for who comes to wait later. One waits at a time. */
export class Bell {
  #rung = false;
  /** @type {(() => void) | undefined} */
  #wake;

  ring() {
    this.#rung = true;
    this.#wake?.();
  }

  /**
   * Waits for a ring, for some milliseconds at most, or until a signal aborts.
   * @param {number} ms
   * @param {AbortSignal} [signal]
   */
  async wait(ms, signal) {
    if (!this.#rung && ms > 0 && !signal?.aborted) {
      await new Promise((/** @type {(value?: unknown) => void} */ resolve) => {
        const wake = () => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", wake);
          this.#wake = undefined;
          resolve();
        };
        const timer = setTimeout(wake, Math.min(ms, longestTimer));
        signal?.addEventListener("abort", wake);
        this.#wake = wake;
      });
    }
    this.#rung = false;
  }
}

/**
 * Waits for some milliseconds, or until a signal aborts.
 * @param {number} ms
 * @param {AbortSignal} [signal]
 */
export const pause = (ms, signal) => new Bell().wait(ms, signal);

/** The end of an operation: a time, or what its caller aborts. */
export class Deadline {
  /**
   * @param {number} ms
   * @param {AbortSignal} [signal]
   */
  constructor(ms, signal) {
    this.at = now() + ms;
    this.signal = signal;
  }

  get left() {
    return this.signal?.aborted ? 0 : Math.max(0, this.at - now());
  }

  get over() {
    return this.left === 0;
  }

  /** Why it is over. */
  get cause() {
    if (this.signal?.aborted) return this.signal.reason;
    const late = new Error("the time is up");
    late.name = "TimeoutError";
    return late;
  }
}
