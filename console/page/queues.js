// All queues, a page at a time, by name.

import { ask, fill, h, keep, setText } from "./dom.js";
import { bytes, count, rate, span } from "./format.js";
import { path } from "./gateway.js";
import { pushForm } from "./push.js";

const columns = [
  ["Ready", (q) => count(q.ready)],
  ["Leased", (q) => count(q.leased)],
  ["Delayed", (q) => count(q.delayed)],
  ["Dead", (q) => (q.dead == null ? "–" : count(q.dead))],
  ["Next is", (q) => (q.oldest ? `${span(q.oldest)} old` : "–")],
  ["In/s", (q) => rate(q.rates.push)],
  ["Out/s", (q) => rate(q.rates.pop)],
  ["Waiting pops", (q) => count(q.waiting)],
  ["Size", (q) => bytes(q.bytes)],
];

export const link = (queue, query = "") => `#/q/${encodeURIComponent(queue)}${query}`;

export function queues(context, { parameters }) {
  const prefix = parameters.get("prefix") ?? "";
  const after = parameters.get("after") ?? "";
  const to = (p, a) => `#/?${new URLSearchParams({ ...(p && { prefix: p }), ...(a && { after: a }) })}`;
  const body = h("tbody");
  const table = h("table", {}, h("caption", { class: "unseen" }, "Queues with their numbers"),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Queue"), columns.map(([name]) => h("th", { scope: "col", class: "number" }, name)))), body);
  const empty = h("p", { class: "empty" }, "Loading…");
  const pages = h("div", { class: "pages" });
  const problem = h("p", { class: "error", role: "alert" });
  table.hidden = true;
  context.follow([path(["overview"], { prefix, after, limit: 50 })], (_, status, answer) => {
    problem.textContent = status === 200 ? "" : answer.error.description;
    if (status !== 200) return;
    keep(body, answer.queues, (q) => q.queue, makeRow, updateRow);
    table.hidden = answer.queues.length === 0;
    empty.hidden = !table.hidden;
    empty.textContent = prefix ? `No queue begins with ${prefix}.` : "There are no queues yet. The first push makes one.";
    fill(pages, h("span", {}, `${answer.queues.length} queues on this page`),
      h("span", { class: "actions" }, after ? h("a", { href: to(prefix, "") }, "First page") : null, answer.next ? h("a", { href: to(prefix, answer.next) }, "Next page") : null));
  });
  const search = h("form", { class: "filters", role: "search", onsubmit: (event) => {
    event.preventDefault();
    location.hash = to(event.target.elements.prefix.value.trim(), "");
  } }, h("label", {}, "Names that begin with", h("input", { name: "prefix", value: prefix, type: "search", spellcheck: "false", autocomplete: "off" })), h("button", {}, "Search"));
  return h("section", {},
    h("div", { class: "head" }, h("h1", {}, "Queues"), context.admin ? h("div", { class: "actions" }, h("button", { class: "main", onclick: () => pushAnywhere() }, "Push an item")) : h("span", { class: "badge" }, "read only")),
    search, problem, h("div", { class: "panel" }, table, empty), pages);
}

function makeRow(q) {
  return h("tr", {}, h("th", { scope: "row" }, h("a", { href: link(q.queue) }, q.queue), " ", h("span", { class: "badge warn", hidden: true }, "paused"), " ", h("span", { class: "error" })),
    columns.map(([name]) => h("td", { class: "number", "data-label": name })));
}

function updateRow(row, q) {
  row.querySelector(".badge").hidden = !q.paused;
  row.querySelector(".error").textContent = q.error ?? "";
  columns.forEach(([name, show], i) => {
    const cell = row.children[i + 1];
    if (name === "Next is" || name === "In/s" || name === "Out/s") cell.textContent = show(q); // they change all the time
    else setText(cell, show(q));
    cell.classList.toggle("bad", name === "Dead" && q.dead > 0);
  });
}

function pushAnywhere() {
  ask("Push an item", [h("label", {}, "Queue", h("input", { name: "queue", required: true, autocomplete: "off", spellcheck: "false" })), ...pushForm.fields()], "Push",
    (fields) => pushForm.submit(fields.queue.value.trim(), fields));
}
