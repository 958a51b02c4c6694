// Pages of items, and the search for a header.

import { attempt, h, keep, setText, update } from "./dom.js";
import { beginning, bytes, count, cut, fromNow, headersOf, some, visible } from "./format.js";
import { get, path } from "./gateway.js";
import { go, itemLink, keyLink, link } from "./links.js";
import { requeueAll } from "./requeue.js";
import { selection } from "./selection.js";

const pageOf = 50;
const previewOf = 160; // bytes of a payload
const searchOf = 1000; // items that one step of a search looks at

const nothing = { ready: "No item is ready.", leased: "No item is leased.", delayed: "No item is delayed.", dead: "There are no dead letters." };

// items shows a page of items that a queue holds: those of a tab of the view of a queue, or
// those of one key in the view of that key.
export function items(context, holder, parameters, { tab, queue, key = "" }) {
  const state = tab === "dead" ? "ready" : tab;
  const filter = { min: parameters.get("min") ?? "", max: parameters.get("max") ?? "", after: parameters.get("after") ?? "" };
  const header = parameters.get("header") ?? "";
  const to = (change) => {
    const query = new URLSearchParams(Object.entries({ tab: key ? "" : tab, header, ...filter, ...change }).filter(([, v]) => v));
    return key ? keyLink(queue, key, `?${query}`) : link(queue, `?${query}`);
  };
  const chosen = selection(context, holder);
  const body = h("tbody");
  const table = h("table", { class: "items", hidden: true }, h("caption", { class: "unseen" }, `Items of ${holder}`),
    h("thead", {}, h("tr", {}, context.admin ? h("th", { scope: "col" }, chosen.all(body)) : null,
      ["Id", "Priority", "Key", tab === "dead" ? "Died" : "Pushed", "Deliveries", tab === "dead" ? "Pushed" : "Until", "Size", tab === "dead" ? "Why, and payload" : "Payload and headers"].map((c) => h("th", { scope: "col", class: c === "Key" ? "key" : ["Priority", "Deliveries", "Size"].includes(c) ? "number" : null }, c)))), body);
  const empty = h("p", { class: "empty" }, "Loading…");
  const pages = h("div", { class: "pages" });
  const show = (list) => {
    keep(body, list, (i) => i.id, (i) => makeRow(i, holder, context.admin && chosen, tab), (row, i) => updateRow(row, i, tab));
    table.hidden = list.length === 0;
    table.classList.toggle("keyless", key !== "" || !list.some((i) => i.key));
    empty.hidden = !table.hidden;
    chosen.refresh(body);
  };
  const live = () => context.follow([path(["queues", holder, "items"], { state, key, ...filter, limit: pageOf, preview: previewOf })], (_, status, answer) => {
    const list = status === 200 ? answer.items : [];
    show(list);
    empty.textContent = status !== 200 && status !== 404 ? answer.error.description : filter.min || filter.max ? "No item has such a priority." : nothing[tab];
    update(pages, h("span", {}, `${some(list.length, "item")} on this page, most urgent first`),
      h("span", { class: "actions" }, filter.after ? h("a", { href: to({ after: "" }), "data-as": "first" }, "First page") : null, answer.next ? h("a", { href: to({ after: answer.next }), "data-as": "next" }, "Next page") : null));
    return status === 200 || status === 404 ? null : "the list is not current";
  });
  if (header) search(holder, { state, key, min: filter.min, max: filter.max }, header, show, pages, empty, context.signal);
  else live();
  const find = (event) => {
    event.preventDefault();
    const { id, min, max, header: text } = event.target.elements;
    if (id.value.trim()) location.hash = itemLink(holder, id.value.trim());
    else go(to({ min: min.value, max: max.value, header: text.value.trim(), after: min.value === filter.min && max.value === filter.max && text.value.trim() === header ? filter.after : "" }));
  };
  return h("div", {},
    h("form", { class: "filters", role: "search", onsubmit: find },
      h("label", {}, "Id", h("input", { name: "id", spellcheck: "false", autocomplete: "off" })),
      h("label", {}, "Priority from", h("input", { name: "min", type: "number", step: "1", value: filter.min })),
      h("label", {}, "to", h("input", { name: "max", type: "number", step: "1", value: filter.max })),
      h("label", {}, "Header has", h("input", { name: "header", value: header, placeholder: "Season: autumn", spellcheck: "false", autocomplete: "off" })),
      h("button", {}, "Search"), context.admin ? chosen.actions : null),
    context.admin && tab === "dead" ? requeueAll(context, holder, queue, { min: filter.min, max: filter.max }) : null,
    h("div", { class: "panel" }, table, empty), pages);
}

// search looks for a header step by step. Each step reads a bounded number of items.
async function search(holder, filter, text, show, pages, empty, signal) {
  const found = [];
  let looked = 0;
  let shown = pageOf;
  const step = (after) => attempt(async () => {
    update(pages, h("span", { role: "status" }, `Searching behind ${some(looked, "item")}…`));
    const page = await get(path(["queues", holder, "items"], { ...filter, after, limit: searchOf, preview: previewOf }));
    if (signal.aborted) return;
    looked += page.items.length;
    found.push(...page.items.filter((i) => headersOf(i).some(([name, value]) => `${name}: ${value}`.includes(text))));
    empty.textContent = "No header has this.";
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

function makeRow(i, holder, chosen, tab) {
  const dead = tab === "dead";
  return h("tr", {}, chosen ? h("td", {}, chosen.box(i)) : null,
    h("th", { scope: "row", class: "mono id" }, h("a", { href: itemLink(holder, i.id) }, i.id)),
    h("td", { class: "number", "data-label": "Priority" }), h("td", { class: "key", "data-label": "Key" }, i.key ? h("a", { class: "text", href: keyLink(i.dead?.origin ?? holder, i.key) }, visible(i.key)) : h("span", { class: "nothing" }, "–")),
    h("td", { class: "time", "data-label": dead ? "Died" : "Pushed" }), h("td", { class: "number", "data-label": "Deliveries" }),
    h("td", { class: "time", "data-label": dead ? "Pushed" : "Until" }), h("td", { class: "number", "data-label": "Size" }), h("td", { class: "wide" }));
}

function updateRow(row, i, tab) {
  const [priority, , first, deliveries, second, size] = row.querySelectorAll("td[data-label]");
  setText(priority, String(i.priority));
  setText(size, bytes(i.size));
  if (tab === "dead") {
    first.textContent = i.dead?.at ? fromNow(i.dead.at) : "–";
    second.textContent = fromNow(i.pushed);
    setText(deliveries, i.dead?.deliveries == null ? "–" : String(i.dead.deliveries));
  } else {
    first.textContent = fromNow(i.pushed);
    second.textContent = i.due ? fromNow(i.due) : i.expires ? `expires ${fromNow(i.expires)}` : "–";
    setText(deliveries, String(i.deliveries));
  }
  const told = (pairs) => pairs.length ? h("div", { class: "text dim" }, visible(pairs.slice(0, 3).map(([n, v]) => `${cut(n, 60)}: ${cut(v, 120)}`).join("\n"))) : null;
  // Headers count in its size, as far as they are listed.
  const all = i.preview == null ? null : beginning(i.preview, i.preview.length >= Math.ceil(previewOf / 3) * 4);
  update(row.querySelector("td.wide"),
    i.dead ? h("div", { class: "text" }, visible(`${cut(i.dead.reason, 200)}${i.dead.origin ? `, from ${i.dead.origin}` : ""}`)) : null,
    all == null ? null : all === "" ? h("div", { class: "nothing" }, "empty") : h("div", { class: "mono preview" }, h("span", { class: "text" }, all)), i.dead ? null : told(headersOf(i)));
}
