// One queue: its numbers, its items by state, its dead letters, its configuration.

import { ask, attempt, confirmTyped, fill, h, keep, setText } from "./dom.js";
import { bytes, count, cut, fromNow, headersOf, rate, some, span, visible } from "./format.js";
import { call, get, path } from "./gateway.js";
import { configuration } from "./config.js";
import { link } from "./queues.js";
import { pushForm } from "./push.js";
import { selection } from "./selection.js";

const pageOf = 50;
const searchOf = 1000; // items that one step of a search looks at

export function queue(context, { queue: name, parameters }) {
  const tab = parameters.get("tab") ?? "ready";
  const at = path(["queues", name]);
  const problem = h("p", { class: "error", role: "alert" });
  const tiles = h("dl", { class: "tiles" });
  const head = { paused: h("span", { class: "badge warn", hidden: true }, "paused"), pause: h("button", { hidden: true }, "Pause") };
  const content = h("div");
  let shown = null; // what the tab shows, once the configuration is known
  let paused = false;
  head.pause.addEventListener("click", () => attempt(() => call("POST", `${at}/${paused ? "resume" : "pause"}`), paused ? "Deliveries go on." : "Deliveries stop."));

  context.follow([at], (_, status, info) => {
    problem.textContent = status === 200 ? "" : info.error.description;
    if (status !== 200) return;
    showTiles(tiles, info);
    paused = info.paused;
    head.paused.hidden = !paused;
    head.pause.hidden = false;
    head.pause.textContent = paused ? "Resume" : "Pause";
    shown ??= fill(content, tab === "config" ? configuration(context, name, info.config) : items(context, name, tab, parameters, info.config));
  });

  const tabs = [["ready", "Ready"], ["leased", "Leases"], ["delayed", "Delayed"], ["dead", "Dead letters"], ["config", "Configuration"]];
  return h("section", {},
    h("div", { class: "head" }, h("h1", {}, name), head.paused, context.admin ? h("div", { class: "actions" },
      h("button", { class: "main", onclick: () => ask(`Push to ${name}`, pushForm.fields(), "Push", (fields) => pushForm.submit(name, fields)) }, "Push an item"),
      head.pause,
      h("button", { class: "danger", onclick: () => purge(name, at) }, "Purge"),
      h("button", { class: "danger", onclick: () => remove(name, at) }, "Delete")) : h("span", { class: "badge" }, "read only")),
    problem, tiles,
    h("nav", { class: "tabs", "aria-label": "Items of the queue" }, tabs.map(([key, label]) => h("a", { href: link(name, key === "ready" ? "" : `?tab=${key}`), "aria-current": key === tab ? "page" : null }, label))),
    content);
}

function showTiles(tiles, info) {
  const numbers = [
    ["Ready", count(info.ready)], ["Leased", count(info.leased)], ["Delayed", count(info.delayed)], ["Waiting pops", count(info.waiting)],
    ["In per second", rate(info.rates.push)], ["Out per second", rate(info.rates.pop)], ["Next item is", info.oldest ? `${span(info.oldest)} old` : "–"],
    ["Oldest item is", info.oldest_of_all ? `${span(info.oldest_of_all)} old${info.oldest_at_least ? " or more" : ""}` : "–"], ["Size", bytes(info.bytes)],
  ];
  if (!tiles.children.length) tiles.append(...numbers.map(([label]) => h("div", {}, h("dt", {}, label), h("dd"))));
  numbers.forEach(([label, text], i) => {
    const value = tiles.children[i].querySelector("dd");
    if (label.includes("second") || label.endsWith("item is")) value.textContent = text;
    else setText(value, text);
  });
}

function purge(name, at) {
  confirmTyped(`Purge ${name}`, "All items go, leased and delayed ones too. Nothing brings them back.", name, "Purge", () => call("POST", `${at}/purge`));
}

function remove(name, at) {
  confirmTyped(`Delete ${name}`, "The queue goes with its items, its configuration and the ids that it remembers. Nothing brings them back.", name, "Delete", async () => {
    await call("DELETE", at);
    location.hash = "#/";
  });
}

// items shows the items in one state, or the dead letters of the queue.
function items(context, name, tab, parameters, config) {
  const holder = tab === "dead" ? config.dead_letter || `${name}-dead` : name;
  const state = tab === "dead" ? "ready" : tab;
  const filter = { min: parameters.get("min") ?? "", max: parameters.get("max") ?? "", after: parameters.get("after") ?? "" };
  const to = (change) => link(name, `?${new URLSearchParams(Object.entries({ tab, ...filter, ...change }).filter(([, v]) => v))}`);
  const chosen = selection(context, holder);
  const body = h("tbody");
  const table = h("table", { hidden: true }, h("caption", { class: "unseen" }, `Items of ${holder}`),
    h("thead", {}, h("tr", {}, context.admin ? h("th", { scope: "col" }, chosen.all(body)) : null,
      ["Id", "Priority", "Key", "Pushed", "Deliveries", "Until", "Size", "Headers"].map((c) => h("th", { scope: "col", class: c === "Key" ? "key" : ["Priority", "Deliveries", "Size"].includes(c) ? "number" : null }, c)))), body);
  const empty = h("p", { class: "empty" }, "Loading…");
  const pages = h("div", { class: "pages" });
  const show = (list) => {
    keep(body, list, (i) => i.id, (i) => makeRow(i, holder, context.admin && chosen), updateRow);
    table.hidden = list.length === 0;
    table.classList.toggle("keyless", !list.some((i) => i.key));
    empty.hidden = !table.hidden;
    chosen.refresh(body);
  };
  const live = () => context.follow([path(["queues", holder, "items"], { state, ...filter, limit: pageOf })], (_, status, answer) => {
    const list = status === 200 ? answer.items : [];
    show(list);
    empty.textContent = status === 200 || status === 404 ? { ready: "No item is ready.", leased: "No item is leased.", delayed: "No item is delayed.", dead: "There are no dead letters." }[tab] : answer.error.description;
    fill(pages, h("span", {}, `${some(list.length, "item")} on this page, most urgent first`),
      h("span", { class: "actions" }, filter.after ? h("a", { href: to({ after: "" }) }, "First page") : null, answer.next ? h("a", { href: to({ after: answer.next }) }, "Next page") : null));
  });
  let stop = live();
  const find = (event) => {
    event.preventDefault();
    const { id, min, max, header } = event.target.elements;
    if (id.value.trim()) location.hash = `#/q/${encodeURIComponent(holder)}/i/${encodeURIComponent(id.value.trim())}`;
    else if (header.value.trim()) {
      stop();
      search(holder, { state, min: min.value, max: max.value }, header.value.trim(), show, pages, empty, context.signal);
    } else if (min.value !== filter.min || max.value !== filter.max) location.hash = to({ min: min.value, max: max.value, after: "" });
    else {
      stop();
      stop = live();
    }
  };
  return h("div", {},
    h("form", { class: "filters", role: "search", onsubmit: find },
      h("label", {}, "Id", h("input", { name: "id", spellcheck: "false", autocomplete: "off" })),
      h("label", {}, "Priority from", h("input", { name: "min", type: "number", step: "1", value: filter.min })),
      h("label", {}, "to", h("input", { name: "max", type: "number", step: "1", value: filter.max })),
      h("label", {}, "Header has", h("input", { name: "header", placeholder: "Season: autumn", spellcheck: "false", autocomplete: "off" })),
      h("button", {}, "Search"), context.admin ? chosen.actions : null),
    h("div", { class: "panel" }, table, empty), pages);
}

// search looks for a header step by step. Each step reads a bounded number of items.
async function search(holder, filter, text, show, pages, empty, signal) {
  const found = [];
  let looked = 0;
  let shown = pageOf;
  const step = (after) => attempt(async () => {
    fill(pages, h("span", { role: "status" }, `Searching behind ${some(looked, "item")}…`));
    const page = await get(path(["queues", holder, "items"], { ...filter, after, limit: searchOf }));
    if (signal.aborted) return;
    looked += page.items.length;
    found.push(...page.items.filter((i) => headersOf(i).some(([name, value]) => `${name}: ${value}`.includes(text))));
    empty.textContent = "No header has this.";
    draw(page.next);
  });
  const draw = (next) => {
    show(found.slice(0, shown));
    fill(pages, h("span", { role: "status" }, `${count(found.length)} found in ${some(looked, "item")}${found.length > shown ? `, the first ${count(shown)} are shown` : ""}`),
      h("span", { class: "actions" }, found.length > shown ? h("button", { onclick: () => { shown += pageOf; draw(next); } }, `Show ${pageOf} more`) : null,
        next ? h("button", { onclick: () => step(next) }, "Search on") : null));
  };
  await step("");
}

function makeRow(i, holder, chosen) {
  const headers = headersOf(i);
  const told = i.dead ? [["Died", i.dead.reason], ["From", i.dead.origin]] : headers;
  return h("tr", {}, chosen ? h("td", {}, chosen.box(i)) : null,
    h("th", { scope: "row", class: "mono" }, h("a", { href: `#/q/${encodeURIComponent(holder)}/i/${encodeURIComponent(i.id)}` }, i.id)),
    h("td", { class: "number", "data-label": "Priority" }), h("td", { class: "key", "data-label": "Key" }, i.key ? h("span", { class: "text" }, visible(i.key)) : h("span", { class: "nothing" }, "–")), h("td", { class: "time", "data-label": "Pushed" }), h("td", { class: "number", "data-label": "Deliveries" }),
    h("td", { class: "time", "data-label": "Until" }), h("td", { class: "number", "data-label": "Size" }, bytes(i.size)),
    h("td", { class: "wide", "data-label": i.dead ? null : "Headers" }, told.length ? h("span", { class: "text" }, visible(told.slice(0, 3).map(([n, v]) => `${cut(n, 60)}: ${cut(v, 120)}`).join("\n"))) : h("span", { class: "nothing" }, "–")));
}

function updateRow(row, i) {
  const [priority, , pushed, deliveries, until] = row.querySelectorAll("td[data-label]");
  setText(priority, String(i.priority));
  pushed.textContent = fromNow(i.pushed);
  setText(deliveries, String(i.deliveries));
  until.textContent = i.due ? fromNow(i.due) : i.expires ? `expires ${fromNow(i.expires)}` : "–";
}
