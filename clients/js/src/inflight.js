// Bounds the pushes that were sent and not answered yet.
import { Bell } from "./bell.js";

/** Bridges accept 64 MiB from all their clients. */
const mostBytes = 16 << 20;

export class InFlight {
  #n = 0;
  #bytes = 0;
  /** @type {{size: number, bell: Bell, admitted: boolean}[]} */
  #waiting = [];
  /** @type {Set<Bell>} */
  #flushing = new Set();

  /** @param {number} most */
  constructor(most) {
    this.most = most;
  }

  /** @param {number} size */
  #fits(size) {
    return this.#n < this.most && (this.#bytes === 0 || this.#bytes + size <= mostBytes);
  }

  /** @param {number} size */
  #add(size) {
    this.#n++;
    this.#bytes += size;
  }

  /**
   * Takes room for a push, if there is some and nobody waits for it.
   * @param {number} size
   */
  tryAcquire(size) {
    const fits = this.#waiting.length === 0 && this.#fits(size);
    if (fits) this.#add(size);
    return fits;
  }

  /**
   * Waits for room behind those that wait already. It says false if the deadline came first.
   * @param {number} size
   * @param {import("./bell.js").Deadline} deadline
   */
  async acquire(size, deadline) {
    const place = { size, bell: new Bell(), admitted: false };
    this.#waiting.push(place);
    while (!place.admitted && !deadline.over) await place.bell.wait(deadline.left, deadline.signal);
    if (!place.admitted) {
      this.#waiting.splice(this.#waiting.indexOf(place), 1);
      this.#admit(); // it may have kept smaller ones waiting
    }
    return place.admitted;
  }

  #admit() {
    for (let first = this.#waiting[0]; first && this.#fits(first.size); first = this.#waiting[0]) {
      this.#waiting.shift();
      this.#add(first.size);
      first.admitted = true;
      first.bell.ring();
    }
  }

  /** @param {number} size */
  release(size) {
    this.#n--;
    this.#bytes -= size;
    this.#admit();
    if (this.#n === 0) for (const bell of this.#flushing) bell.ring();
  }

  /**
   * Waits until no push is in flight. It says false if the deadline came first.
   * @param {import("./bell.js").Deadline} deadline
   */
  async flush(deadline) {
    const bell = new Bell();
    this.#flushing.add(bell);
    while (this.#n > 0 && !deadline.over) await bell.wait(deadline.left, deadline.signal);
    this.#flushing.delete(bell);
    return this.#n === 0;
  }
}
