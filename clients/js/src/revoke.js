// Takes leases away.
import { Call } from "./call.js";
import { duration, durationText, shown } from "./duration.js";
import { LeaseLostError } from "./errors.js";
import { integer } from "./integer.js";
import { writeJSON } from "./json.js";
import { bytes } from "./message.js";
import { callOptions, checked } from "./options.js";
import { checkID } from "./subjects.js";

/**
 * @param {import("./queue.js").Queue} queue
 * @param {string} id
 * @param {import("../index.js").RevokeOptions} [given]
 */
export async function revoke(queue, id, given) {
  checkID(id);
  const { fence, delay, reason, ...options } = checked(given, "revoke", ["fence", "delay", "reason", ...callOptions]);
  if (reason !== undefined && typeof reason !== "string") throw new TypeError(`the reason is ${shown(reason)}: expected a text`);
  const body = writeJSON({ fence: fenceOf(fence), delay: delay === undefined ? undefined : durationText(duration(delay, "delay", { zero: true })), reason });
  // Without a fence a repetition may hit the next holder.
  const call = new Call({ op: "revoke", queue: queue.name, subject: queue.subject(`revoke.${id}`), body: bytes(body), repeatable: fence !== undefined });
  try {
    await call.send(queue.client, queue.client.deadline(options));
  } catch (err) {
    // An attempt without an answer may have ended the lease, and it has ended.
    if (!(err instanceof LeaseLostError && call.open)) throw err;
  }
}

/** @param {unknown} fence */
function fenceOf(fence) {
  if (fence === undefined) return undefined;
  if ((typeof fence === "bigint" || Number.isSafeInteger(fence)) && /** @type {number} */ (fence) > 0) return integer(String(fence));
  throw new TypeError(`fence is ${shown(fence)}: expected that of a lease`);
}
