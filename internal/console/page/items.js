// Pages of items, and the search for a header.

import { attempt, h, keep, setText, update } from "./dom.js";
import { beginning, bytes, count, cut, fromNow, headersOf, some, span, visible } from "./format.js";
import { get, path } from "./gateway.js";
import { go, holderLink, itemLink, keyLink, link } from "./links.js";
import { requeueAll } from "./requeue.js";
import { selection } from "./selection.js";
import { alike, delivered, why } from "./why.js";

const pageOf = 50;
const storiesOf = 25; // items of a page with what came of their leases, which may be long
const previewOf = 160; // bytes of a payload
const searchOf = 1000; // items that one step of a search looks at

const nothing = { ready: "No item is ready.", leased: "No item is leased.", delayed: "No item is delayed.", dead: "There are no dead letters." };

// items shows a page of items that a queue holds: those of a tab of the view of a queue, or
// those of one key in the view of that key.
export function items(context, holder, parameters, { tab, queue, key = "" }) {
  const state = tab === "dead" ? "ready" : tab;
  const filter = { min: parameters.get("min") ?? "", max: parameters.get("max") ?? "", holder: tab === "leased" ? parameters.get("holder") ?? "" : "", after: parameters.get("after") ?? "" };
  const failed = tab === "dead" || tab === "delayed"; // perhaps
  const header = parameters.get("header") ?? "";
  const reason = tab === "dead" ? parameters.get("reason") ?? "" : "";
  const to = (change) => {
    const query = new URLSearchParams(Object.entries({ tab: key ? "" : tab, header, reason, ...filter, ...change }).filter(([, v]) => v));
    return key ? keyLink(queue, key, `?${query}`) : link(queue, `?${query}`);
  };
  const chosen = selection(context, holder);
  const body = h("tbody");
  const table = h("table", { class: "items", hidden: true }, h("caption", { class: "unseen" }, `Items of ${holder}`),
    h("thead", {}, h("tr", {}, context.admin ? h("th", { scope: "col" }, chosen.all(body)) : null,
      h("th", { scope: "col" }, "Id"), columns[tab].map((c) => h("th", { scope: "col", class: c.class }, c.label)), h("th", { scope: "col" }, tab === "dead" ? "Why, and payload" : "Payload and headers"))), body);
  const empty = h("p", { class: "empty" }, "Loading…");
  const pages = h("div", { class: "pages" });
  const show = (list) => {
    keep(body, list, (i) => i.id, (i) => makeRow(i, holder, context.admin && chosen, tab), (row, i) => updateRow(row, i, holder, tab));
    table.hidden = list.length === 0;
    table.classList.toggle("keyless", key !== "" || !list.some((i) => i.key));
    empty.hidden = !table.hidden;
    chosen.refresh(body);
  };
  const live = () => context.follow([path(["queues", holder, "items"], { state, key, ...filter, ...(failed ? { limit: storiesOf, attempts: true } : { limit: pageOf }), preview: previewOf })], (_, status, answer) => {
    const list = status === 200 ? answer.items : [];
    show(list);
    empty.textContent = status !== 200 && status !== 404 ? answer.error.description : filter.holder ? `${visible(filter.holder)} holds nothing${answer.next ? " on this page" : ""}.` : filter.min || filter.max ? "No item has such a priority." : nothing[tab];
    update(pages, h("span", {}, `${some(list.length, "item")} on this page, most urgent first`),
      h("span", { class: "actions" }, filter.after ? h("a", { href: to({ after: "" }), "data-as": "first" }, "First page") : null, answer.next ? h("a", { href: to({ after: answer.next }), "data-as": "next" }, "Next page") : null));
    return status === 200 || status === 404 ? null : "the list is not current";
  });
  const fits = (i) => (!header || headersOf(i).some(([name, value]) => `${name}: ${value}`.includes(header))) && (!reason || [why(i), alike(why(i))].some((text) => text.includes(reason)));
  if (header || reason) search(holder, { state, key, min: filter.min, max: filter.max, holder: filter.holder }, fits, header ? "No header has this." : "No dead letter has this reason.", show, pages, empty, context.signal);
  else live();
  const find = (event) => {
    event.preventDefault();
    const fields = event.target.elements;
    if (fields.id.value.trim()) return void (location.hash = itemLink(holder, fields.id.value.trim()));
    const now = { min: filter.min, max: filter.max, holder: filter.holder, header, reason };
    const change = Object.fromEntries(Object.keys(now).filter((name) => fields[name]).map((name) => [name, fields[name].value.trim()]));
    go(to({ ...change, after: Object.entries(change).every(([name, value]) => value === now[name]) ? filter.after : "" }));
  };
  return h("div", {},
    h("form", { class: "filters", role: "search", onsubmit: find },
      h("label", {}, "Id", h("input", { name: "id", spellcheck: "false", autocomplete: "off" })),
      h("label", {}, "Priority from", h("input", { name: "min", type: "number", step: "1", value: filter.min })),
      h("label", {}, "to", h("input", { name: "max", type: "number", step: "1", value: filter.max })),
      tab === "leased" ? h("label", {}, "Held by", h("input", { name: "holder", value: filter.holder, spellcheck: "false", autocomplete: "off" })) : null,
      tab === "dead" ? h("label", {}, "Reason has", h("input", { name: "reason", value: reason, spellcheck: "false", autocomplete: "off" })) : null,
      h("label", {}, "Header has", h("input", { name: "header", value: header, placeholder: "Season: autumn", spellcheck: "false", autocomplete: "off" })),
      h("button", {}, "Search"), context.admin ? chosen.actions : null),
    context.admin && tab === "dead" ? requeueAll(context, holder, queue, { min: filter.min, max: filter.max }) : null,
    h("div", { class: "panel" }, table, empty), pages);
}

// search looks for what fits step by step. Each step reads a bounded number of items.
async function search(holder, filter, fits, none, show, pages, empty, signal) {
  const found = [];
  let looked = 0;
  let shown = pageOf;
  const step = (after) => attempt(async () => {
    update(pages, h("span", { role: "status" }, `Searching behind ${some(looked, "item")}…`));
    const page = await get(path(["queues", holder, "items"], { ...filter, after, limit: searchOf, preview: previewOf, attempts: true }));
    if (signal.aborted) return;
    looked += page.items.length;
    found.push(...page.items.filter(fits));
    empty.textContent = none;
    draw(page.next);
  });
  const draw = (next) => {
    show(found.slice(0, shown));
    update(pages, h("span", { role: "status" }, `${count(found.length)} found in ${some(looked, "item")}${found.length > shown ? `, the first ${count(shown)} are shown` : ""}`),
      h("span", { class: "actions" }, found.length > shown ? h("button", { "data-as": "show", onclick: () => { shown += pageOf; draw(next); } }, `Show ${pageOf} more`) : null,
        next ? h("button", { "data-as": "on", onclick: () => step(next) }, "Search on") : null));
  };
  await step("");
}

const cell = (text) => (to, i) => setText(to, text(i));
const restless = (text) => (to, i) => { to.textContent = text(i); };

const priority = { label: "Priority", class: "number", show: cell((i) => String(i.priority)) };
const owner = { label: "Key", class: "key", show: (to, i, holder) => update(to, i.key ? h("a", { class: "text", href: keyLink(i.dead?.origin ?? holder, i.key) }, visible(i.key)) : h("span", { class: "nothing" }, "–")) };
const pushed = { label: "Pushed", class: "time", show: restless((i) => fromNow(i.pushed)) };
const held = { label: "Held by", class: "holder", show: (to, i, holder) => update(to, i.holder ? h("a", { class: "text", href: holderLink(holder, i.holder) }, visible(i.holder)) : h("span", { class: "nothing" }, "–")) };
const heldFor = { label: "Held for", class: "time", show: restless((i) => (i.since ? span((Date.now() - Date.parse(i.since)) / 1000) : "–")) };
const died = { label: "Died", class: "time", show: restless((i) => (i.dead?.at ? fromNow(i.dead.at) : "–")) };
const deliveries = { label: "Deliveries", class: "number", show: cell(delivered) };
const before = { ...deliveries, show: cell((i) => (i.dead?.deliveries == null ? "–" : String(i.dead.deliveries))) };
const until = { label: "Until", class: "time", show: restless((i) => (i.held ? "held" : i.due ? fromNow(i.due) : i.expires ? `expires ${fromNow(i.expires)}` : "–")) };
const size = { label: "Size", class: "number", show: cell((i) => bytes(i.size)) };

// columns are those between the id of an item and what it holds.
const columns = {
  ready: [priority, owner, pushed, deliveries, until, size],
  leased: [priority, owner, held, heldFor, deliveries, until, size],
  delayed: [priority, owner, pushed, deliveries, until, size],
  dead: [priority, owner, died, before, pushed, size],
};

function makeRow(i, holder, chosen, tab) {
  return h("tr", {}, chosen ? h("td", {}, i.held ? null : chosen.box(i)) : null,
    h("th", { scope: "row", class: "mono id" }, h("a", { href: itemLink(holder, i.id) }, i.id)),
    columns[tab].map((c) => h("td", { class: c.class, "data-label": c.label })), h("td", { class: "wide" }));
}

function updateRow(row, i, holder, tab) {
  if (tab === "leased" && i.fence) row.dataset.fence = i.fence; // of the lease that somebody sees
  row.querySelectorAll("td[data-label]").forEach((to, n) => columns[tab][n].show(to, i, holder));
  const told = (pairs) => pairs.length ? h("div", { class: "text dim" }, visible(pairs.slice(0, 3).map(([n, v]) => `${cut(n, 60)}: ${cut(v, 120)}`).join("\n"))) : null;
  // Headers count in its size, as far as they are listed.
  const all = i.preview == null ? null : beginning(i.preview, i.preview.length >= Math.ceil(previewOf / 3) * 4);
  const failed = why(i);
  update(row.querySelector("td.wide"),
    failed ? h("div", { class: "text" }, visible(`${cut(failed, 200)}${i.dead?.origin ? `, from ${i.dead.origin}` : ""}`)) : null,
    all == null ? null : all === "" ? h("div", { class: "nothing" }, "empty") : h("div", { class: "mono preview" }, h("span", { class: "text" }, all)), i.dead ? null : told(headersOf(i)));
}
