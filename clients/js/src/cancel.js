// Ends items for good, whatever their state.
import { unreadable } from "./errors.js";
import { time } from "./itemdata.js";
import { exact, writeJSON } from "./json.js";
import { bytes } from "./message.js";
import { callOptions, checked, flag, reasonOf } from "./options.js";
import { checkID } from "./subjects.js";

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} id
 * @param {import("../index.js").CancelOptions} [given]
 * @returns {Promise<import("../index.js").Cancelled>}
 */
export async function cancel(queue, id, given) {
  checkID(id);
  const { reason, spareLeased, ...options } = checked(given, "cancel", ["reason", "spareLeased", ...callOptions]);
  const body = writeJSON({ reason: reasonOf(reason) || undefined, leased: flag(spareLeased, "spareLeased") ? false : undefined });
  const answer = await queue.client.ask({ op: "cancel", queue: queue.name, subject: queue.subject(`cancel.${id}`), body }, options);
  try {
    return read(answer);
  } catch (cause) {
    throw unreadable("cancel", queue.name, bytes(JSON.stringify(answer)), cause);
  }
}

/** @param {any} answer */
function read({ outcome, finished_at: at, priority, deliveries }) {
  if (typeof outcome !== "string" || outcome === "") throw new Error("it has no outcome");
  return {
    outcome: /** @type {import("../index.js").Outcome} */ (outcome),
    finishedAt: at === undefined ? undefined : time(at),
    priority: exact(priority),
    deliveries: Number(exact(deliveries)),
  };
}
