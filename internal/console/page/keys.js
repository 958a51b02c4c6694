// The keys of a queue, a page at a time.

import { fill, h, keep, setText, update } from "./dom.js";
import { count, short, some, visible } from "./format.js";
import { path } from "./gateway.js";
import { keyLink, link } from "./links.js";

const pageOf = 50;

// reasons say in two or three words what the first item of a key waits for.
const reasons = { pause: "paused", key_order: "one at a time", key_limit: "its limit", key_rate: "its rate", key_cost_rate: "its cost rate", rate: "the queue's rate" };

const none = (setting) => (setting == null ? "–" : "none");

// columns are what there is to say of a key. What an administrator can set for it has a mark where one has.
const columns = [
  { label: "Ready", show: (k) => `${count(k.ready)}${k.more ? "+" : ""}` },
  { label: "Leased", show: (k) => count(k.leased) },
  { label: "Limit", own: (k) => k.settings.limit != null, show: (k) => (k.limit ? count(k.limit) : none(k.settings.limit)) },
  { label: "Rate", own: (k) => k.settings.rate != null, show: (k) => visible(short(k.rate)) || none(k.settings.rate) },
  { label: "Cost rate", cost: true, own: (k) => k.settings.cost_rate != null, show: (k) => visible(short(k.cost_rate ?? "")) || none(k.settings.cost_rate) },
  { label: "Weight", own: (k) => k.settings.weight != null, show: (k) => count(k.weight) },
  { label: "Tokens", show: (k) => (k.tokens == null ? "–" : count(k.tokens)) },
  { label: "Cost tokens", cost: true, show: (k) => (k.cost_tokens == null ? "–" : count(k.cost_tokens)) },
];

const costed = (k) => k.cost_rate != null || k.settings.cost_rate != null;

// columnsOf are the columns of a list of keys: those of cost only if one of them has a rate of it.
export const columnsOf = (list) => (list.some(costed) ? columns : columns.filter((c) => !c.cost));

// cell is what a key has in a column.
export const cell = (column, k) => `${column.show(k)}${column.own?.(k) ? "*" : ""}`;

// waiting are keys whose items have to wait first, and those alike in their order.
const waiting = (list) => [...list.filter((k) => k.waits_for), ...list.filter((k) => !k.waits_for)];

export function keys(context, queue, parameters) {
  const after = parameters.get("after") ?? "";
  const to = (behind) => link(queue, `?${new URLSearchParams({ tab: "keys", ...(behind ? { after: behind } : {}) })}`);
  const body = h("tbody");
  const head = h("tr");
  const table = h("table", { hidden: true }, h("caption", { class: "unseen" }, `Keys of ${queue}`), h("thead", {}, head), body);
  let shown = [];
  const empty = h("p", { class: "empty" }, "Loading…");
  const pages = h("div", { class: "pages" });
  context.follow([path(["queues", queue, "keys"], { after, limit: pageOf })], (_, status, answer) => {
    const list = status === 200 ? waiting(answer.keys) : [];
    const columns = columnsOf(list);
    if (columns.length !== shown.length) {
      body.replaceChildren(); // a row has the cells of the columns for which it was made
      fill(head, h("th", { scope: "col" }, "Key"), columns.map((c) => h("th", { scope: "col", class: "number" }, c.label)), h("th", { scope: "col" }, "Waits for"));
    }
    shown = columns;
    keep(body, list, (k) => k.key, (k) => makeRow(queue, k, columns), (row, k) => updateRow(row, k, columns));
    table.hidden = list.length === 0;
    empty.hidden = !table.hidden;
    empty.textContent = status !== 200 ? answer.error.description : after ? "No more keys." : "No key has items that are ready or leased, or settings. A push says whose item it is by its key.";
    update(pages, h("span", {}, `${some(list.length, "key")} on this page, those that wait first${list.some((k) => columns.some((c) => c.own?.(k))) ? ". * is set for the key itself" : ""}`),
      h("span", { class: "actions" }, after ? h("a", { href: to(""), "data-as": "first" }, "First page") : null, answer.next ? h("a", { href: to(answer.next), "data-as": "next" }, "Next page") : null));
    return status === 200 ? null : "the keys are not shown";
  });
  const find = (event) => {
    event.preventDefault();
    const name = event.target.elements.name.value.trim();
    if (name) location.hash = keyLink(queue, name);
  };
  return h("div", {},
    h("form", { class: "filters", role: "search", onsubmit: find },
      h("label", {}, "Key", h("input", { name: "name", spellcheck: "false", autocomplete: "off" })), h("button", {}, "Show")),
    h("div", { class: "panel" }, table, empty), pages);
}

function makeRow(queue, k, columns) {
  return h("tr", {}, h("th", { scope: "row" }, h("a", { class: "text", href: keyLink(queue, k.key) }, visible(k.key))),
    columns.map((c) => h("td", { class: "number", "data-label": c.label })), h("td", { "data-label": "Waits for" }, h("span", {})));
}

function updateRow(row, k, columns) {
  columns.forEach((c, i) => setText(row.children[i + 1], cell(c, k)));
  const reason = row.lastElementChild.firstElementChild;
  const paused = k.settings.paused === true;
  reason.className = k.waits_for || paused ? "badge warn" : "nothing";
  reason.textContent = k.waits_for ? reasons[k.waits_for] ?? visible(k.waits_for) : paused ? "paused" : "–";
}
