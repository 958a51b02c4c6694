// Pages of items.
import { unreadable } from "./errors.js";
import { holderOf } from "./holder.js";
import { count, priorityText } from "./integer.js";
import { attemptsOf, milliseconds } from "./itemdata.js";
import { exact, writeJSON } from "./json.js";
import { bytes } from "./message.js";
import { callOptions, checked, flag, word } from "./options.js";
import { checkID } from "./subjects.js";

const pageSize = 200;

/**
 * @param {import("./queue.js").Queue} queue
 * @param {import("../index.js").ListOptions} [given]
 */
export async function* list(queue, given) {
  const { state, min, max, key, holder, after, bodies, preview, attempts, page = pageSize, ...options } = checked(given, "list", [
    ...["state", "min", "max", "key", "holder", "after", "bodies", "preview", "attempts", "page"],
    ...callOptions,
  ]);
  if (after !== undefined) checkID(after);
  const fields = {
    state: word(state, "state", ["ready", "leased", "delayed"]),
    min: min === undefined ? undefined : BigInt(priorityText(min, "min")),
    max: max === undefined ? undefined : BigInt(priorityText(max, "max")),
    key,
    holder: holderOf(holder),
    attempts: flag(attempts, "attempts") || undefined,
    bodies: flag(bodies, "bodies") || undefined,
    preview: preview === undefined ? undefined : count(preview, "preview", 1024),
    limit: count(page, "page", 1000),
  };
  for (let behind = after; ; ) {
    const body = writeJSON({ ...fields, after: behind });
    const answer = await queue.client.ask({ op: "list", queue: queue.name, subject: queue.subject("list"), body }, options);
    if (!Array.isArray(answer.items)) throw unreadable("list", queue.name, bytes(JSON.stringify(answer)));
    for (const item of answer.items) yield listed(queue, item);
    if (typeof answer.next !== "string" || answer.next === "") return;
    behind = answer.next;
  }
}

/**
 * @param {import("./queue.js").Queue} queue
 * @param {any} i
 * @returns {import("../index.js").Listed}
 */
function listed(queue, i) {
  const time = (/** @type {unknown} */ value) => (typeof value === "string" ? new Date(value) : undefined);
  try {
    return {
      id: String(i.id),
      priority: exact(i.priority),
      key: i.key ?? "",
      state: i.state,
      deliveries: Number(i.deliveries),
      failures: Number(i.failures ?? 0),
      interruptions: Number(i.interruptions ?? 0),
      returns: Number(i.returns ?? 0),
      pushed: new Date(i.pushed),
      held: i.held === true,
      due: time(i.due),
      since: time(i.since),
      expires: time(i.expires),
      fence: exact(i.fence ?? 0),
      keyFence: exact(i.key_fence ?? 0),
      unique: i.unique ?? "",
      uniqueUntil: i.unique_until ?? "",
      resultTtl: i.result_ttl === undefined ? 0 : milliseconds(i.result_ttl),
      cost: Number(i.cost ?? 1),
      dead: i.dead && deathOf(i.dead, time(i.dead.at)),
      holder: i.holder ?? "",
      cause: i.cause ?? "",
      attempts: Number(i.attempts ?? 0),
      lastAttempts: attemptsOf(i.last_attempts ?? []),
      size: Number(i.size),
      headers: i.headers,
      preview: typeof i.preview === "string" ? Uint8Array.from(atob(i.preview), (c) => c.charCodeAt(0)) : undefined,
      data: typeof i.body === "string" ? Uint8Array.from(atob(i.body), (c) => c.charCodeAt(0)) : undefined,
    };
  } catch (cause) {
    throw unreadable("list", queue.name, bytes(JSON.stringify(i)), cause);
  }
}

/**
 * @param {any} d
 * @param {Date | undefined} at
 * @returns {import("../index.js").Death}
 */
const deathOf = (d, at) => ({ reason: d.reason, origin: d.origin, originId: d.origin_id, at, deliveries: Number(d.deliveries ?? 0), interruptions: Number(d.interruptions ?? 0) });
