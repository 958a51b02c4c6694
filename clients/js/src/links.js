// Links of a queue: what gives its items to another store.
import { unreadable } from "./errors.js";
import { exact, writeJSON } from "./json.js";
import { bytes } from "./message.js";
import { requests } from "./named.js";
import { callOptions, checked, flag } from "./options.js";

export const links = requests("link", known);

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} name
 * @param {import("../index.js").LinkChange} change
 * @param {import("../index.js").CallOptions} [given]
 */
export async function setLink(queue, name, change, given) {
  if (change === undefined) throw new TypeError('the change is undefined: expected an object such as { to: "d9b1c2" }');
  const { to, paused } = checked(change, "setLink", ["to", "paused"]);
  return links.set(queue, name, writeJSON({ to, paused: paused === undefined ? undefined : flag(paused, "paused") }), given);
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} name
 * @param {import("../index.js").DeleteLinkOptions} [given]
 */
export async function deleteLink(queue, name, given) {
  const { force, ...options } = checked(given, "deleteLink", ["force", ...callOptions]);
  const { returned } = await links.remove(queue, name, flag(force, "force") ? writeJSON({ force: true }) : undefined, options);
  return Number(returned);
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} op
 * @param {any} l
 * @returns {import("../index.js").Link}
 */
function known(queue, op, l) {
  try {
    return {
      name: String(l.name),
      to: String(l.to),
      paused: l.paused === true,
      state: l.state,
      batch: exact(l.batch),
      held: Number(exact(l.held)),
      since: l.since === undefined ? undefined : new Date(l.since),
      given: exact(l.given),
    };
  } catch (cause) {
    throw unreadable(op, queue.name, bytes(JSON.stringify(l)), cause);
  }
}
