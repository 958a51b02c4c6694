// The schedules of a queue, a page at a time, by name.

import { h, keep, setText, update } from "./dom.js";
import { count, fromNow, some, visible } from "./format.js";
import { path } from "./gateway.js";
import { link, scheduleLink } from "./links.js";

const pageOf = 50;

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
  const after = parameters.get("after") ?? "";
  const to = (behind) => link(queue, `?${new URLSearchParams({ tab: "schedules", ...(behind ? { after: behind } : {}) })}`);
  const body = h("tbody");
  const table = h("table", { hidden: true }, h("caption", { class: "unseen" }, `Schedules of ${queue}`),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Name"), columns.map((c) => h("th", { scope: "col", class: c.number ? "number" : null }, c.label)), h("th", { scope: "col" }, "Stands"))), body);
  const empty = h("p", { class: "empty" }, "Loading…");
  const pages = h("div", { class: "pages" });
  context.follow([path(["queues", queue, "schedules"], { after, limit: pageOf })], (_, status, answer) => {
    const list = status === 200 ? answer.schedules : [];
    keep(body, list, (s) => s.name, (s) => makeRow(queue, s), updateRow);
    table.hidden = list.length === 0;
    empty.hidden = !table.hidden;
    empty.textContent = status !== 200 ? answer.error.description : after ? "No more schedules." : "The queue has no schedules. A schedule pushes its item at each of its times.";
    update(pages, h("span", {}, `${some(list.length, "schedule")} on this page, by name`),
      h("span", { class: "actions" }, after ? h("a", { href: to(""), "data-as": "first" }, "First page") : null, answer.next ? h("a", { href: to(answer.next), "data-as": "next" }, "Next page") : null));
    return status === 200 ? null : "the schedules are not shown";
  });
  return h("div", {},
    context.admin ? h("div", { class: "filters" }, h("a", { class: "button", href: scheduleLink(queue) }, "New schedule")) : null,
    h("div", { class: "panel" }, table, empty), pages);
}

function makeRow(queue, s) {
  return h("tr", {}, h("th", { scope: "row" }, h("a", { href: scheduleLink(queue, s.name) }, s.name)),
    columns.map((c) => h("td", { class: c.number ? "number" : null, "data-label": c.label })), h("td", { "data-label": "Stands" }, h("span", {})));
}

function updateRow(row, s) {
  columns.forEach((c, i) => {
    const cell = row.children[i + 1];
    if (c.restless) cell.textContent = c.text(s);
    else setText(cell, c.text(s));
  });
  const stands = row.lastElementChild.firstElementChild;
  stands.className = standing(s) ? "badge warn" : "nothing";
  stands.textContent = standing(s) || "–";
}
