// All queues, a page at a time, by name.

import { badges, fact } from "./cause.js";
import { ask, h, keep, setText, update } from "./dom.js";
import { count, some } from "./format.js";
import { get, path } from "./gateway.js";
import { columns, sorted, sums } from "./columns.js";
import { charts } from "./history.js";
import { link } from "./links.js";
import { pushForm } from "./push.js";
import { survey } from "./survey.js";

const pageOf = 50;
const countEvery = 60000; // reading the names of all queues is more work than a page

export function queues(context, { parameters }) {
  const prefix = parameters.get("prefix") ?? "";
  const after = parameters.get("after") ?? "";
  const by = columns.find((c) => c.key === parameters.get("sort"));
  const wide = parameters.has("all"); // all pages together, as they were when somebody looked
  const to = (change) => `#/?${new URLSearchParams(Object.entries({ prefix, after, sort: by?.key, all: wide ? "1" : "", ...change }).filter(([, v]) => v))}`;
  const heading = (c) => h("th", { scope: "col", class: "number", "aria-sort": c === by ? "descending" : null },
    h("a", { class: "sort", href: to({ sort: c === by ? "" : c.key }), title: c === by ? "Sort by name" : "Sort these queues, the largest first" }, c.label, h("span", { "aria-hidden": "true" }, c === by ? " ↓" : "")));
  const body = h("tbody");
  const total = h("tr", { class: "sums" });
  const table = h("table", { hidden: true }, h("caption", { class: "unseen" }, "Queues with their numbers"), h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Queue"), columns.map(heading)), total), body);
  const empty = h("p", { class: "empty" }, "Loading…");
  const pages = h("div", { class: "pages" });
  const problem = h("p", { class: "error", role: "alert" });
  const show = (list, what, more) => {
    keep(body, list, (q) => q.queue, makeRow, updateRow);
    table.hidden = list.length === 0;
    empty.hidden = !table.hidden;
    update(total, h("th", { scope: "row" }, what.label), columns.map((c) => h("td", { class: "number", "data-label": c.label }, c.sum ? c.show(what.sums) : "")));
    update(pages, more);
  };
  const past = charts(lines);
  let number = null; // of all queues
  let draw = () => {};
  const follow = (paths, on) => context.follow([...(context.tenant ? [] : ["/v1/history"]), ...paths], (where, status, answer) => {
    if (where !== "/v1/history") return on(status, answer);
    if (status === 200) past.show(answer);
    else past.hide();
    return wide ? "the table is not live" : null;
  });
  if (wide) {
    if (!context.tenant) follow([], () => {});
    survey(get, { prefix, by: by ?? columns[0], most: pageOf, back: to({ all: "" }) }, show, problem, context.signal);
  } else {
    follow([path(["overview"], { prefix, after, limit: pageOf })], (status, answer) => {
      problem.textContent = status === 200 ? "" : answer.error.description;
      if (status !== 200) return "not current";
      draw = () => showPage(answer);
      draw();
    });
    if (!prefix) countAll();
  }
  function showPage(answer) {
    const list = answer.queues;
    const all = !after && !answer.next;
    empty.textContent = prefix ? `No queue begins with ${prefix}.` : "There are no queues yet. The first push makes one.";
    const these = number > list.length && !all ? `${count(list.length)} of ${some(number, "queue")}` : some(list.length, "queue");
    show(by ? sorted(list, by) : list, { label: all ? `All ${these}` : number ? these : `These ${these} alone`, sums: sums(list) }, [
      h("span", {}, `${these} on this page, ${by ? `sorted by ${by.label}` : "by name"}${by && !all ? ". Other pages have others" : ""}`),
      h("span", { class: "actions" },
        all ? null : h("a", { class: "button", href: to({ all: "1" }), "data-as": "all" }, `Look at all, by ${(by ?? columns[0]).label}`),
        after ? h("a", { href: to({ after: "" }), "data-as": "first" }, "First page") : null, answer.next ? h("a", { href: to({ after: answer.next }), "data-as": "next" }, "Next page") : null),
    ]);
  }
  async function countAll() {
    try {
      ({ total: number } = await get(path(["queues"], { total: true })));
      if (!context.signal.aborted) draw();
    } catch { /* pages say how many they have */ }
    setTimeout(() => { if (!context.signal.aborted && !document.hidden) countAll(); }, countEvery);
  }
  const search = h("form", { class: "filters", role: "search", onsubmit: (event) => {
    event.preventDefault();
    location.hash = to({ prefix: event.target.elements.prefix.value.trim(), after: "", all: "" });
  } }, h("label", {}, "Names that begin with", h("input", { name: "prefix", value: prefix, type: "search", spellcheck: "false", autocomplete: "off" })), h("button", {}, "Search"),
  // Where the table has no headings.
  h("label", { class: "narrow" }, "Sorted by", h("select", { name: "sort", onchange: (event) => { location.hash = to({ sort: event.target.value }); } },
    [{ key: "", label: "Name" }, ...columns].map((c) => h("option", { value: c.key, selected: c.key === (by?.key ?? "") }, c.label)))));
  return h("section", {},
    h("div", { class: "head" }, h("h1", {}, "Queues"), context.admin ? h("div", { class: "actions" }, h("button", { class: "main", onclick: () => pushAnywhere() }, "Push an item")) : h("span", { class: "badge" }, "read only")),
    past.element, search, problem, h("div", { class: "panel" }, table, empty), pages);
}

const lines = [
  { title: "Items a minute", lines: [{ name: "push", label: "in" }, { name: "pop", label: "out" }, { name: "settle", label: "settled" }] },
  { title: "Failures a minute", lines: [{ name: "nacked", label: "failed" }, { name: "failed", label: "refused" }, { name: "dead", label: "died" }, { name: "leases_lost", label: "leases lost" }] },
];

function makeRow(q) {
  return h("tr", {}, h("th", { scope: "row" }, h("a", { href: link(q.queue) }, q.queue), " ", h("span", { class: "badges" }), " ", h("span", { class: "fact" }), " ", h("span", { class: "error" })),
    columns.map((c) => h("td", { class: "number", "data-label": c.label })));
}

function updateRow(row, q) {
  update(row.querySelector(".badges"), badges(q));
  setText(row.querySelector(".fact"), fact(q));
  row.querySelector(".error").textContent = q.error ?? "";
  columns.forEach((c, i) => {
    const cell = row.children[i + 1];
    if (c.restless) cell.textContent = c.show(q);
    else setText(cell, c.show(q));
    cell.classList.toggle("bad", c.key === "dead" && q.dead > 0);
  });
}

function pushAnywhere() {
  ask("Push an item", [h("label", {}, "Queue", h("input", { name: "queue", required: true, autocomplete: "off", spellcheck: "false" })), ...pushForm.fields()], "Push",
    (fields) => pushForm.submit(fields.queue.value.trim(), fields));
}
