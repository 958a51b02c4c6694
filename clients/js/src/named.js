// What a queue has by name, such as schedules, sources and links: pages of it, and requests about one.
import { unreadable } from "./errors.js";
import { count } from "./integer.js";
import { writeJSON } from "./json.js";
import { bytes } from "./message.js";
import { callOptions, checked } from "./options.js";
import { checkName } from "./subjects.js";

/** @typedef {import("./queue.js").Queue} Queue */
/** @typedef {import("../index.js").CallOptions | undefined} Options */

const pageSize = 100;

/**
 * All from a name on, page after page.
 * @param {Queue} queue
 * @param {"keys" | "schedules" | "sources" | "links"} what
 * @param {({after?: string, page?: number} & import("../index.js").CallOptions) | undefined} given
 * @param {(after: string) => void} check
 * @returns {AsyncGenerator<any, void, undefined>}
 */
export async function* pages(queue, what, given, check) {
  const { after = "", page = pageSize, ...options } = checked(given, what, ["after", "page", ...callOptions]);
  if (after !== "") check(after);
  const limit = count(page, "page", pageSize);
  for (let behind = after; ; ) {
    const answer = await queue.client.ask({ op: what, queue: queue.name, subject: queue.subject(what), body: writeJSON({ limit, after: behind || undefined }) }, options);
    if (!Array.isArray(answer[what])) throw unreadable(what, queue.name, bytes(JSON.stringify(answer)));
    yield* answer[what];
    if (typeof answer.next !== "string" || answer.next === "") return;
    behind = answer.next;
  }
}

/**
 * A request about one.
 * @param {Queue} queue
 * @param {string} op
 * @param {"schedule" | "admin.schedule" | "admin.source" | "admin.link"} verb
 * @param {string} name
 * @param {string | undefined} body
 * @param {Options} options
 * @param {string} [action]
 * @param {boolean} [repeatable] whatever the operation
 */
export async function ask(queue, op, verb, name, body, options, action = "", repeatable = false) {
  checkName(verb.replace("admin.", ""), name);
  return queue.client.ask({ op, queue: queue.name, subject: queue.subject(`${verb}.${name}${action}`), body, repeatable }, checked(options, op, callOptions));
}

/**
 * The requests about a kind.
 * @template T
 * @param {"schedule" | "source" | "link"} kind
 * @param {(queue: Queue, op: string, shown: any) => T} known what an answer shows
 */
export function requests(kind, known) {
  const [verb, Kind] = [/** @type {const} */ (`admin.${kind}`), kind.charAt(0).toUpperCase() + kind.slice(1)];
  return {
    /**
     * @param {Queue} queue
     * @param {import("../index.js").NamesOptions} [given]
     * @returns {AsyncGenerator<T, void, undefined>}
     */
    async *all(queue, given) {
      for await (const one of pages(queue, `${kind}s`, given, (after) => checkName(kind, after))) yield known(queue, `${kind}s`, one);
    },
    /**
     * @param {Queue} queue
     * @param {string} name
     * @param {Options} given
     */
    async show(queue, name, given) {
      return known(queue, kind, await ask(queue, kind, verb, name, undefined, given));
    },
    /**
     * @param {Queue} queue
     * @param {string} name
     * @param {string} change
     * @param {Options} given
     */
    async set(queue, name, change, given) {
      return known(queue, `set${Kind}`, await ask(queue, `set${Kind}`, verb, name, change, given));
    },
    /**
     * @param {Queue} queue
     * @param {string} name
     * @param {Options} given
     */
    async pause(queue, name, given) {
      return known(queue, `pause${Kind}`, await ask(queue, `pause${Kind}`, verb, name, undefined, given, ".pause"));
    },
    /**
     * @param {Queue} queue
     * @param {string} name
     * @param {string | undefined} how
     * @param {Options} given
     * @param {boolean} [repeatable]
     */
    async resume(queue, name, how, given, repeatable) {
      return known(queue, `resume${Kind}`, await ask(queue, `resume${Kind}`, verb, name, how, given, ".resume", repeatable));
    },
    /**
     * @param {Queue} queue
     * @param {string} name
     * @param {string | undefined} how
     * @param {Options} given
     */
    async remove(queue, name, how, given) {
      return ask(queue, `delete${Kind}`, verb, name, how, given, ".delete");
    },
  };
}
