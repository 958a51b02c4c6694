// The links of a queue, a page at a time, by name: what each holds, and since when.

import { count, fromNow, visible } from "./format.js";
import { path } from "./gateway.js";
import { named, standing } from "./named.js";

const columns = [
  { label: "To", text: (l) => visible(l.to) },
  { label: "Batch", text: (l) => count(l.batch), number: true },
  { label: "Held", text: (l) => count(l.held), number: true },
  { label: "Since", text: (l) => (l.held ? fromNow(l.since) : "–"), restless: true },
  { label: "Given", text: (l) => count(l.given), number: true },
];

export function queueLinks(context, queue, parameters) {
  return named(context, queue, parameters, {
    what: "link", columns, none: "The queue has no links. A link gives its items to another store.",
    make: (l) => l.name,
    stands: (cell, l) => standing(context, cell, path(["queues", queue, "links", l.name]), l, l.paused ? "badge warn" : "badge"),
  });
}
