// Durations: a number of milliseconds, or a text in the protocol's form, such as 1h30m.

const units = new Map([["ns", 1e-6], ["us", 1e-3], ["µs", 1e-3], ["μs", 1e-3], ["ms", 1], ["s", 1e3], ["m", 60e3], ["h", 3600e3]]);
const form = /^(?:\d+(?:\.\d+)?(?:ns|us|µs|μs|ms|s|m|h))+$/;
const part = /(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h)/g;

/** What a message of nats.js, or a timer, can carry: more than ten years. */
const longest = 1e12;

/**
 * A duration in milliseconds. An error says what was expected.
 * @param {unknown} value
 * @param {string} what
 * @param {{zero?: boolean, most?: number}} [limits] whether 0 is one, and the longest in milliseconds
 * @returns {number}
 */
export function duration(value, what, { zero = false, most = longest } = {}) {
  let ms = NaN;
  if (typeof value === "number") ms = value;
  else if (value === "0") ms = 0;
  else if (typeof value === "string" && form.test(value)) {
    ms = 0;
    for (const [, number, unit = ""] of value.matchAll(part)) ms += Number(number) * (units.get(unit) ?? NaN);
  }
  if (!(ms >= 0) || ms > most || (ms === 0 && !zero)) {
    const range = `${zero ? "0" : "more than 0"} to ${most} ms`;
    throw new TypeError(`${what} is ${shown(value)}: expected milliseconds, or a text such as "30s" or "1h30m", ${range}`);
  }
  return ms;
}

/**
 * The text of a duration, as headers have it.
 * @param {number} ms
 */
export function durationText(ms) {
  const ns = BigInt(Math.floor(ms)) * 1_000_000n + BigInt(Math.round((ms % 1) * 1e6));
  return ns % 1_000_000n === 0n ? `${ns / 1_000_000n}ms` : `${ns}ns`;
}

/** @param {number} ms */
export const nanoseconds = (ms) => Math.round(ms * 1e6);

/**
 * A value as an error shows it.
 * @param {unknown} value
 */
export function shown(value) {
  let text;
  if (typeof value === "bigint") text = `${value}n`;
  else if (typeof value === "string") text = JSON.stringify(value);
  else if (typeof value === "object" && value !== null) text = Array.isArray(value) ? "an array" : "an object";
  else text = String(value);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
