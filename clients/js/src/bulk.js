// Operations on all items of a queue that fit, page after page.
import { Call } from "./call.js";
import { duration, durationText } from "./duration.js";
import { PQError, unreadable } from "./errors.js";
import { count, priorityText } from "./integer.js";
import { readJSON, writeJSON } from "./json.js";
import { bytes } from "./message.js";
import { callOptions, checked, flag, word } from "./options.js";
import { timeOf } from "./push.js";

const names = ["where", "all", "dryRun", "page", "priority", "delay", "reason", "to", "spread", "after"];
const filters = ["state", "min", "max", "key", "header", "reason", "cause", "origin", "holder", "pushedBefore", "pushedAfter", "deliveries", "interruptions"];

/**
 * @param {import("./queue.js").Queue} queue
 * @param {import("../index.js").BulkVerb} verb
 * @param {import("../index.js").BulkOptions} given
 * @returns {Promise<import("../index.js").BulkResult>}
 */
export async function bulk(queue, verb, given) {
  if (word(verb, "the verb", ["remove", "move", "revoke", "requeue"]) === undefined) throw new TypeError("the verb is undefined: expected one such as \"remove\"");
  const { where, all, dryRun, page, priority, delay, reason, to, spread, after = "", ...options } = checked(given, "bulk", [...names, ...callOptions]);
  const fields = {
    where: where === undefined ? undefined : filter(where),
    all: flag(all, "all") || undefined,
    dry_run: flag(dryRun, "dryRun") || undefined,
    priority: priority === undefined ? undefined : BigInt(priorityText(priority)),
    delay: delay === undefined ? undefined : durationText(duration(delay, "delay", { zero: true })),
    reason,
    to,
    spread: spread === undefined ? undefined : durationText(duration(spread, "spread")),
  };
  const limit = page === undefined ? undefined : count(page, "page", 500);
  const result = { done: 0, looked: 0, atLeast: false, full: false, next: after };
  try {
    if (after === "") await one(queue, verb, { ...fields, limit: 0 }, result, options); // where it begins is settled before anything changes
    while (result.next !== "" && !result.full) await one(queue, verb, { ...fields, limit, after: result.next }, result, options);
  } catch (err) {
    if (err instanceof PQError) err.bulk = result;
    throw err;
  }
  return result;
}

/**
 * Does a page, and adds what it did to the result.
 * @param {import("./queue.js").Queue} queue
 * @param {string} verb
 * @param {Record<string, unknown>} fields
 * @param {import("../index.js").BulkResult} result
 * @param {import("../index.js").CallOptions} options
 */
async function one(queue, verb, fields, result, options) {
  const call = new Call({ op: "bulk", queue: queue.name, subject: queue.subject(`admin.${verb}`), body: bytes(writeJSON(fields)), repeatable: true });
  let m;
  try {
    m = await call.send(queue.client, queue.client.deadline(options));
  } finally {
    result.atLeast ||= call.open && fields.dry_run === undefined;
  }
  try {
    const page = readJSON(m.data);
    if (!Number.isSafeInteger(page.done) || !Number.isSafeInteger(page.looked)) throw new Error("fields are missing");
    result.done += page.done;
    result.looked += page.looked;
    result.full = page.stopped === "full";
    result.next = page.next ?? "";
  } catch (cause) {
    throw unreadable("bulk", queue.name, m.data, cause);
  }
}

/** @param {import("../index.js").BulkWhere} given */
function filter(given) {
  const { min, max, pushedBefore, pushedAfter, ...where } = checked(given, "where", filters);
  return {
    ...where,
    min: min === undefined ? undefined : BigInt(priorityText(min, "min")),
    max: max === undefined ? undefined : BigInt(priorityText(max, "max")),
    pushed_before: pushedBefore === undefined ? undefined : timeOf(pushedBefore, "pushedBefore"),
    pushed_after: pushedAfter === undefined ? undefined : timeOf(pushedAfter, "pushedAfter"),
  };
}
