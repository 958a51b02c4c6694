// What keeps the items of a queue from being handed out, and pushes from being taken.

import { h, update } from "./dom.js";
import { visible } from "./format.js";
import { holderLink, itemLink, keyLink, link } from "./links.js";

// These are nothing that somebody has to end.
const fine = new Set(["flows", "empty", "delayed", "leased", "unknown"]);

// resting says that dead letters wait for somebody who looks at them, and not for workers.
const resting = (queue, cause) => cause === "no_workers" && queue.endsWith("-dead");

// badges are a word each for what somebody has to end. A queue of an earlier bridge has no cause.
export function badges(queue, { paused, cause, refuses }) {
  const words = new Set([paused ? "paused" : "", cause, refuses].filter((word) => word && !fine.has(word) && !resting(queue, word)));
  return [...words].map((word) => [" ", h("span", { class: "badge warn", "data-as": word }, word.replaceAll("_", " "))]);
}

// showCause writes the sentence for it, with links to what that names. What needs no explanation has none.
export function showCause(element, queue, explain) {
  element.hidden = !explain || explain.cause === "flows" || explain.cause === "empty" || resting(queue, explain.cause);
  if (element.hidden) return;
  element.classList.toggle("warn", !fine.has(explain.cause));
  const { text, next, key, item, holder, link: by } = explain;
  const named = [[key, "Its key", keyLink], [item, "The item", itemLink], [holder, "The holder", holderLink], [by, "The links", (of) => link(of, "?tab=links")]].filter(([name]) => name);
  update(element, visible(next ? `${text} ${next}` : text), named.map(([name, label, to]) => [" ", h("a", { "data-as": label, href: to(queue, name) }, label)]));
}
