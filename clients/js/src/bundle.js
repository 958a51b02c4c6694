// Bundles: many items in one message. docs/protocol/bundle.md has the form.
import { bytes, Message, text } from "./message.js";

/** How many items one message has at most. */
export const maxBundle = 1000;

/**
 * The body of a bundle.
 * @param {{headers: [string, string][], payload: Uint8Array}[]} items
 */
export function bundle(items) {
  /** @type {Uint8Array[]} */
  const parts = [];
  for (const { headers, payload } of items) {
    const lines = bytes(headers.map(([name, value]) => `${name}: ${value}\n`).join(""));
    parts.push(bytes(`${lines.length} ${payload.length}\n`), lines, payload, lineFeed);
  }
  const body = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    body.set(part, at);
    at += part.length;
  }
  return body;
}

const lineFeed = bytes("\n");
const endOfLine = 10;
const longestFirstLine = 32;

/**
 * The items of a bundle as messages of their own, and the end of a batch behind them; another
 * message as it is. What cannot be read becomes a message that answers no pop.
 * @param {Message} m
 * @returns {Message[]}
 */
export function unbundled(m) {
  if (!m.headers.has("PQ-Bundle")) return [m];
  /** @type {Message[]} */
  const all = [];
  for (let rest = m.data; rest.length > 0; ) {
    const frame = firstFrame(rest);
    if (!frame) return [...all, new Message(new Map(), rest)];
    all.push(frame.item);
    rest = frame.rest;
  }
  return [...all, new Message(new Map([["Status", ["204"]]]), new Uint8Array(0))];
}

/** @param {Uint8Array} body */
function firstFrame(body) {
  const end = body.subarray(0, longestFirstLine).indexOf(endOfLine);
  const sizes = end < 0 ? null : /^(0|[1-9]\d{0,15}) (0|[1-9]\d{0,15})$/.exec(text(body.subarray(0, end)));
  if (!sizes) return undefined;
  const payloadAt = end + 1 + Number(sizes[1]);
  const behind = payloadAt + Number(sizes[2]);
  if (behind > body.length || (behind < body.length && body[behind] !== endOfLine)) return undefined;
  const headers = headersIn(text(body.subarray(end + 1, payloadAt)));
  if (!headers) return undefined;
  return { item: new Message(headers, body.slice(payloadAt, behind)), rest: body.subarray(behind + 1) };
}

/** @param {string} lines */
function headersIn(lines) {
  /** @type {Map<string, string[]>} */
  const headers = new Map();
  const all = lines.split("\n");
  if (all.pop() !== "") return undefined; // the last line has no end
  for (const line of all) {
    const colon = line.indexOf(":");
    if (colon <= 0) return undefined;
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/\r$/, "").replace(/^[ \t]+|[ \t]+$/g, "");
    headers.set(name, [...(headers.get(name) ?? []), value]);
  }
  return headers;
}
