// The schedules of a queue, a page at a time, by name.

import { h, update } from "./dom.js";
import { count, fromNow, visible } from "./format.js";
import { scheduleLink } from "./links.js";
import { named } from "./named.js";

// unzoned are specs that need no zone.
export const unzoned = (spec) => /^@(at|every)/.test(spec);

export const zoned = (s) => `${s.spec}${unzoned(s.spec) ? "" : `, ${s.zone}`}`;

// late says whether a time has come some seconds ago, and nothing has fired.
export const late = (s) => Boolean(s.due) && Date.now() - Date.parse(s.due) > 10000;

// standing says in a word or two why a schedule does not fire; "" if it does.
export function standing(s) {
  if (s.done) return "done";
  if (s.paused) return "paused";
  if (s.full) return "queue full";
  return late(s) ? "late" : "";
}

const columns = [
  { label: "Times", text: (s) => visible(zoned(s)) },
  { label: "Next", text: (s) => (s.due ? fromNow(s.due) : "–"), restless: true },
  { label: "Last", text: (s) => (s.last ? fromNow(s.last) : "–"), restless: true },
  { label: "Fired", text: (s) => count(s.counts.fired), number: true },
  { label: "Missed", text: (s) => count(s.counts.missed), number: true },
  { label: "Overlapped", text: (s) => count(s.counts.overlapped), number: true },
];

export function schedules(context, queue, parameters) {
  return h("div", {},
    context.admin ? h("div", { class: "filters" }, h("a", { class: "button", href: scheduleLink(queue) }, "New schedule")) : null,
    named(context, queue, parameters, {
      what: "schedule", columns, none: "The queue has no schedules. A schedule pushes its item at each of its times.",
      make: (s) => h("a", { href: scheduleLink(queue, s.name) }, s.name),
      stands: (cell, s) => update(cell, h("span", { class: standing(s) ? "badge warn" : "nothing" }, standing(s) || "–")),
    }));
}
