// What a queue has by name, such as schedules and sources: pages of it, and requests about one.
import { unreadable } from "./errors.js";
import { count } from "./integer.js";
import { writeJSON } from "./json.js";
import { bytes } from "./message.js";
import { callOptions, checked } from "./options.js";
import { checkName } from "./subjects.js";

const pageSize = 100;

/**
 * All from a name on, page after page.
 * @param {import("./queue.js").Queue} queue
 * @param {"keys" | "schedules" | "sources"} what
 * @param {{after?: string, page?: number} & import("../index.js").CallOptions | undefined} given
 * @param {(after: string) => void} check
 * @returns {AsyncGenerator<any, void, undefined>}
 */
export async function* pages(queue, what, given, check) {
  const { after = "", page = pageSize, ...options } = checked(given, what, ["after", "page", ...callOptions]);
  if (after !== "") check(after);
  const limit = count(page, "page", pageSize);
  for (let behind = after; ; ) {
    const answer = await queue.client.ask({ op: what, queue: queue.name, subject: queue.subject(what), body: writeJSON({ limit, after: behind || undefined }), repeatable: true }, options);
    if (!Array.isArray(answer[what])) throw unreadable(what, queue.name, bytes(JSON.stringify(answer)));
    yield* answer[what];
    if (typeof answer.next !== "string" || answer.next === "") return;
    behind = answer.next;
  }
}

/**
 * A request about a schedule or a source. A second removal would find none.
 * @param {import("./queue.js").Queue} queue
 * @param {string} op
 * @param {"schedule" | "admin.schedule" | "admin.source"} verb
 * @param {string} name
 * @param {string | undefined} body
 * @param {import("../index.js").CallOptions | undefined} options
 * @param {string} [action]
 * @param {boolean} [repeatable]
 */
export async function ask(queue, op, verb, name, body, options, action = "", repeatable = action !== ".delete") {
  checkName(verb.replace("admin.", ""), name);
  return queue.client.ask({ op, queue: queue.name, subject: queue.subject(`${verb}.${name}${action}`), body, repeatable }, checked(options, op, callOptions));
}
