// Options of functions: a misspelled one is an error, not ignored.
import { shown } from "./duration.js";
import { bytes } from "./message.js";

/** What every request has. */
export const callOptions = ["timeout", "signal"];

/**
 * @template {object} T
 * @param {T | undefined} options
 * @param {string} what
 * @param {string[]} known
 * @returns {T}
 */
export function checked(options, what, known) {
  if (options === undefined) return /** @type {T} */ ({});
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new TypeError(`the options of ${what} are ${shown(options)}: expected an object`);
  }
  for (const name of Object.keys(options)) {
    if (!known.includes(name)) throw new TypeError(`${what} has no option ${shown(name)}: expected ${known.join(", ")}`);
  }
  return options;
}

/**
 * One of some words, or undefined.
 * @template {string} T
 * @param {T | undefined} value
 * @param {string} what
 * @param {readonly T[]} words
 */
export function word(value, what, words) {
  if (value === undefined || words.includes(value)) return value;
  throw new TypeError(`${what} is ${shown(value)}: expected ${words.map((w) => JSON.stringify(w)).join(" or ")}`);
}

/**
 * @param {unknown} value
 * @param {string} what
 */
export function flag(value, what) {
  if (value === undefined || typeof value === "boolean") return value === true;
  throw new TypeError(`${what} is ${shown(value)}: expected true or false`);
}

/** How much of a reason is sent. */
const longestReason = 1024;

/**
 * The beginning of a reason that a request has room for, "" without one.
 * @param {unknown} reason
 */
export function reasonOf(reason = "") {
  if (typeof reason !== "string") throw new TypeError(`the reason is ${shown(reason)}: expected a text`);
  return new TextDecoder().decode(bytes(reason).subarray(0, longestReason), { stream: true }); // drops half a character
}

/**
 * @param {unknown} signal
 * @returns {AbortSignal | undefined}
 */
export function abortSignal(signal) {
  if (signal === undefined || (typeof signal === "object" && signal !== null && "aborted" in signal)) return /** @type {AbortSignal | undefined} */ (signal);
  throw new TypeError(`signal is ${shown(signal)}: expected an AbortSignal`);
}
