// SHA-256 at once: crypto.subtle has it only later, and in a browser only where the page came encrypted.

/** The first 32 bits behind the point. @param {number} x */
const fraction = (x) => Math.floor((x % 1) * 2 ** 32);

/** @type {number[]} */
const primes = [];
for (let n = 2; primes.length < 64; n++) if (primes.every((prime) => n % prime > 0)) primes.push(n);
const start = primes.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
const added = primes.map((prime) => fraction(Math.cbrt(prime)));

/** A word, turned to the right and combined. @param {number} x @param {number[]} by */
const mixed = (x, ...by) => by.reduce((all, n) => all ^ ((x >>> n) | (x << (32 - n))), 0);

/** @typedef {[number, number, number, number, number, number, number, number]} State */

/**
 * The state behind a block of 64 bytes.
 * @param {State} before
 * @param {DataView} block
 * @returns {State}
 */
function behind(before, block) {
  /** @type {number[]} */
  const words = [];
  const word = (/** @type {number} */ i) => /** @type {number} */ (words[i]);
  let [a, b, c, d, e, f, g, h] = before;
  for (const [i, constant] of added.entries()) {
    if (i < 16) words.push(block.getInt32(4 * i));
    else words.push((word(i - 16) + (mixed(word(i - 15), 7, 18) ^ (word(i - 15) >>> 3)) + word(i - 7) + (mixed(word(i - 2), 17, 19) ^ (word(i - 2) >>> 10))) | 0);
    const one = (h + mixed(e, 6, 11, 25) + ((e & f) ^ (~e & g)) + constant + word(i)) | 0;
    const two = mixed(a, 2, 13, 22) + ((a & b) ^ (a & c) ^ (b & c));
    [a, b, c, d, e, f, g, h] = [(one + two) | 0, a, b, c, (d + one) | 0, e, f, g];
  }
  return /** @type {State} */ ([a, b, c, d, e, f, g, h].map((value, i) => (value + /** @type {number} */ (before[i])) | 0));
}

/**
 * The hash in hexadecimal.
 * @param {Uint8Array} data
 */
export function sha256(data) {
  const padded = new Uint8Array(64 * Math.ceil((data.length + 9) / 64));
  padded.set(data);
  padded[data.length] = 0x80;
  new DataView(padded.buffer).setUint32(padded.length - 4, 8 * data.length);
  let state = /** @type {State} */ (start);
  for (let at = 0; at < padded.length; at += 64) state = behind(state, new DataView(padded.buffer, at, 64));
  return state.map((value) => (value >>> 0).toString(16).padStart(8, "0")).join("");
}
