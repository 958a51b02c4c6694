// What keeps the items of a queue from being handed out, and pushes from being taken.

import { h, update } from "./dom.js";
import { span, visible } from "./format.js";
import { holderLink, itemLink, keyLink, link } from "./links.js";

// These are nothing that somebody has to end.
const fine = new Set(["flows", "empty", "delayed", "leased", "unknown", "dead_letters"]);

// badges are a word each for what somebody has to end.
export function badges({ paused, cause, refuses, replies, failing }) {
  if (replies && cause === "no_workers") cause = "";
  const words = new Set([paused ? "paused" : "", cause, refuses].filter((word) => word && !fine.has(word)));
  return [...words].map((word) => [" ", h("span", { class: "badge warn", "data-as": word }, word === "failing" && failing ? `failing ${failing}` : word.replaceAll("_", " "))]);
}

// fact is no badge, for nobody has to end it: how many of the delayed items have failed; for how long the oldest lease lasts, and who
// has it, where workers take none of the items that are ready, for they may have long jobs; and results of Celery.
export const fact = (q) => (q.replies ? "Celery results" : q.cause === "delayed" && q.failing ? `${q.failing} failed` : q.held_for ? `held ${span(q.held_for)}${q.holder ? `, ${visible(q.holder)}` : ""}` : "");

// showCause writes the sentence for it, with links to what that names. id is that of the item that is explained. A queue that
// needs no explanation has none.
export function showCause(element, queue, explain, id) {
  element.hidden = !explain || (!id && (explain.cause === "flows" || explain.cause === "empty"));
  if (element.hidden) return;
  element.classList.toggle("warn", !fine.has(explain.cause));
  const { text, next, key, item, holder, link: by } = explain;
  const named = [[key, "Its key", keyLink], [item === id ? "" : item, "The item", itemLink], [holder, "The holder", holderLink], [by, "The links", (of) => link(of, "?tab=links")]].filter(([name]) => name);
  update(element, visible(next ? `${text} ${next}` : text), named.map(([name, label, to]) => [" ", h("a", { "data-as": label, href: to(queue, name) }, label)]));
}
