// Integers of 64 bits: numbers, or bigints where a number would not be exact.
import { shown } from "./duration.js";

const least = -(2n ** 63n);
const greatest = 2n ** 63n - 1n;

/**
 * The decimal text of a priority.
 * @param {unknown} value
 * @param {string} what
 * @returns {string}
 */
export function priorityText(value, what = "priority") {
  if (typeof value === "bigint" && value >= least && value <= greatest) return value.toString();
  if (typeof value === "number" && Number.isSafeInteger(value)) return (value + 0 || 0).toString();
  throw new TypeError(`${what} is ${shown(value)}: expected an integer, as a bigint from 2n ** 53n on, of 64 bits`);
}

/**
 * The number of a message in a stream.
 * @param {unknown} value
 * @param {string} what
 */
export function sequence(value, what) {
  const n = BigInt(priorityText(value, what));
  if (n > 0n) return n;
  throw new TypeError(`${what} is ${shown(value)}: expected 1 and more`);
}

/**
 * @param {string} digits
 * @returns {number | bigint}
 */
export function integer(digits) {
  if (!/^-?\d+$/.test(digits)) throw new Error(`${shown(digits)}: expected an integer`);
  const number = Number(digits);
  return Number.isSafeInteger(number) ? number : BigInt(digits);
}

/** The most that a delivery may cost. */
export const mostCost = 1_000_000;

/**
 * A count, positive unless least is 0.
 * @param {unknown} value
 * @param {string} what
 * @returns {number}
 */
export function count(value, what, most = Number.MAX_SAFE_INTEGER, least = 1) {
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw new TypeError(`${what} is ${shown(value)}: expected an integer from ${least} to ${most}`);
}
