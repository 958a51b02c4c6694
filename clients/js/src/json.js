// JSON with integers of 64 bits, which JSON.parse would round.
import { integer } from "./integer.js";
import { text } from "./message.js";

const tokens = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const large = /^-?\d{16,}$/;

/**
 * Reads an object. Integers that a number may not hold exactly are texts: see {@link exact}.
 * @param {Uint8Array} body
 * @returns {any}
 */
export function readJSON(body) {
  let json = text(body);
  if (/\d{16}/.test(json)) json = json.replace(tokens, (token) => (large.test(token) ? `"${token}"` : token));
  const value = JSON.parse(json);
  if (typeof value !== "object" || value === null) throw new Error("expected a JSON object");
  return value;
}

/**
 * An integer that readJSON has read.
 * @param {unknown} value
 * @returns {number | bigint}
 */
export function exact(value) {
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  if (typeof value === "string") return integer(value);
  throw new Error(`${JSON.stringify(value)}: expected an integer`);
}

/**
 * Writes an object. Its integers may be bigints; what is undefined is left out.
 * @param {Record<string, unknown>} fields
 */
export function writeJSON(fields) {
  const all = Object.entries(fields).filter(([, value]) => value !== undefined);
  return `{${all.map(([name, value]) => `${JSON.stringify(name)}:${written(value)}`).join(",")}}`;
}

/**
 * @param {unknown} value
 * @returns {string}
 */
function written(value) {
  if (typeof value === "bigint") return `${value}`;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return JSON.stringify(value);
  return writeJSON(/** @type {Record<string, unknown>} */ (value));
}
