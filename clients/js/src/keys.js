// Keys of a queue: what they have, and their settings.
import { shown } from "./duration.js";
import { writeJSON } from "./json.js";
import { bytes } from "./message.js";
import { pages } from "./named.js";
import { callOptions, checked } from "./options.js";
import { keyOf } from "./push.js";

/**
 * @param {import("./queue.js").Queue} queue
 * @param {import("../index.js").KeysOptions} [given]
 */
export async function* keys(queue, given) {
  const text = (/** @type {unknown} */ after) => {
    if (typeof after !== "string") throw new TypeError(`after is ${shown(after)}: expected a key`);
  };
  for await (const k of pages(queue, "keys", given, text)) yield known(k);
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} key
 * @param {import("../index.js").CallOptions} [given]
 */
export async function key(queue, key, given) {
  const options = checked(given, "key", callOptions);
  return known(await queue.client.ask({ op: "key", queue: queue.name, subject: queue.subject(`key.${token(key)}`) }, options));
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} key
 * @param {import("../index.js").KeyChange} change
 * @param {import("../index.js").CallOptions} [given]
 * @returns {Promise<import("../index.js").KeySettings>}
 */
export async function setKey(queue, key, change, given) {
  if (change === undefined) throw new TypeError("the change is undefined: expected an object such as { limit: 5 }");
  const { costRate, ...plain } = checked(change, "setKey", ["limit", "rate", "weight", "paused", "costRate"]);
  const body = writeJSON({ ...plain, cost_rate: costRate });
  const options = checked(given, "setKey", callOptions);
  return settings(await queue.client.ask({ op: "setKey", queue: queue.name, subject: queue.subject(`admin.key.${token(key)}`), body }, options));
}

/**
 * A key as a token of a subject.
 * @param {unknown} key
 */
function token(key) {
  const given = keyOf(key);
  if (given === undefined) throw new TypeError("the key is undefined: expected a text");
  return Array.from(bytes(given), (byte) => {
    const c = String.fromCharCode(byte);
    return /[A-Za-z0-9_-]/.test(c) ? c : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");
}

/**
 * @param {any} k
 * @returns {import("../index.js").KeyInfo}
 */
function known({ waits_for, retry, more, cost_rate, cost_tokens, ...k }) {
  const owed = cost_tokens === undefined ? {} : { costTokens: cost_tokens };
  return { ...k, more: more === true, costRate: cost_rate ?? "", ...owed, waitsFor: waits_for ?? "", retry: retry ?? "", settings: settings(k.settings) };
}

/**
 * @param {any} given
 * @returns {import("../index.js").KeySettings}
 */
function settings({ cost_rate, ...plain }) {
  return cost_rate === undefined ? plain : { ...plain, costRate: cost_rate };
}
