// The dead letters of a queue, grouped by what they failed of: step by step, as they were when
// somebody looked.

import { ask, attempt, confirmOnce, h, keep, setText, update } from "./dom.js";
import { count, cut, fromNow, some, visible } from "./format.js";
import { call, get, path } from "./gateway.js";
import { errand } from "./errand.js";
import { link } from "./links.js";
import { alike, why } from "./why.js";

const stepOf = 5000; // dead letters of a step
const readOf = 1000; // dead letters of a request
const most = 100; // groups that are shown
const ageEvery = 10000; // milliseconds between looks at how long ago they died

// failures shows the groups of those dead letters of queue that holder has.
export function failures(context, { holder, queue }) {
  const body = h("tbody");
  const table = h("table", { hidden: true }, h("caption", { class: "unseen" }, `Failures of ${queue}`),
    h("thead", {}, h("tr", {}, ["Cause", "Items", "Last died", "Last held by", context.admin ? "Actions" : null].filter(Boolean).map((c) => h("th", { scope: "col", class: c === "Items" ? "number" : null }, c)))), body);
  const empty = h("p", { class: "empty" }, "Loading…");
  const pages = h("div", { class: "pages" });
  const now = h("span");
  let groups = new Map(); // by what their reasons have in common
  let looked = 0;
  let next = null; // behind what was looked at, if there is more
  let state = "";
  let busy = false; // a step, or an errand, is under way

  const { element, run } = errand(context, { holder, queue, filter: {}, over: () => { busy = false; look(); } });

  function draw() {
    const list = [...groups.values()].sort((a, b) => b.items - a.items || (a.name < b.name ? -1 : 1));
    keep(body, list.slice(0, most), (g) => g.name, makeRow, updateRow);
    table.hidden = list.length === 0;
    empty.hidden = !table.hidden;
    update(pages, h("span", {}, h("span", { role: "status" }, state), " ", now), h("span", { class: "actions" },
      h("button", { type: "button", "data-as": "again", disabled: busy, onclick: look }, "Look again"),
      next ? h("button", { type: "button", "data-as": "more", disabled: busy, onclick: step }, `Look at ${count(stepOf)} more`) : null));
  }

  function makeRow(g) {
    const act = (label, danger, explanation, doing, done, one) => {
      const begin = async () => {
        busy = true;
        draw();
        run({ doing, done, one, bulk: operation(danger ? "remove" : "requeue", g.name), fits: (item) => alike(why(item)) === g.name }); // it goes on when the dialog is closed
      };
      const question = () => `${explanation} This goes on until all dead letters are looked at that are there now, you stop it, or you leave this view.`;
      const title = () => `${label} ${some(groups.get(g.name)?.items ?? 0, "dead letter")}`;
      return h("button", { type: "button", class: danger ? "danger" : null, "aria-label": `${label} those that died of ${cut(g.name, 200)}`,
        onclick: () => (danger ? confirmOnce(title(), question(), label, begin) : ask(title(), [h("p", {}, question())], label, begin)) }, `${label}…`);
    };
    return h("tr", {}, h("th", { scope: "row" }, h("a", { class: "text", href: link(queue, `?${new URLSearchParams({ tab: "dead", reason: g.name })}`) }, visible(cut(g.name, 200)))),
      h("td", { class: "number", "data-label": "Items" }), h("td", { class: "time", "data-label": "Last died" }), h("td", { class: "text", "data-label": "Last held by" }),
      context.admin ? h("td", {}, h("div", { class: "actions" },
        act("Requeue", false, `They are pushed to ${queue} again, as far as it takes them.`, "Requeueing", "requeued", (at) => call("POST", `${at}/requeue`)),
        act("Discard", true, "Nothing brings them back.", "Discarding", "discarded", (at) => call("DELETE", at)))) : null);
  }

  // operation is the bulk operation for a group, if all of it failed of the same text, and nothing else did.
  const operation = (verb, name) => (/#|\*$/.test(name) ? undefined : { verb, where: JSON.stringify({ origin: queue, cause: name }) });

  function updateRow(row, g) {
    const [items, died, held] = row.querySelectorAll("td[data-label]");
    setText(items, count(g.items));
    died.textContent = g.last ? fromNow(g.last) : "–";
    died.title = g.last ? new Date(g.last).toLocaleString() : "";
    setText(held, g.holders.size === 0 ? "–" : g.holders.size === 1 ? visible([...g.holders][0]) : some(g.holders.size, "holder"));
    for (const button of row.querySelectorAll("button")) button.disabled = busy;
  }

  function add(item) {
    const name = alike(why(item));
    const group = groups.get(name) ?? { name, items: 0, last: "", holders: new Set() };
    groups.set(name, group);
    group.items++;
    if (item.dead.at > group.last) group.last = item.dead.at;
    const held = item.last_attempts?.at(-1)?.holder;
    if (held) group.holders.add(held);
  }

  function look() {
    groups = new Map();
    looked = 0;
    next = "";
    return step();
  }

  async function step() {
    busy = true;
    const went = await attempt(async () => {
      for (const end = looked + stepOf; next != null && looked < end; ) {
        state = `Looking behind ${some(looked, "dead letter")}…`;
        draw();
        const page = await get(path(["queues", holder, "items"], { after: next, limit: readOf, attempts: true })).catch((error) => {
          if (error.status === 404) return { items: [] }; // nothing has died yet
          throw error;
        });
        if (context.signal.aborted) return;
        looked += page.items.length;
        for (const item of page.items) if (item.dead?.origin === queue) add(item);
        next = page.next ?? null;
      }
    });
    if (context.signal.aborted) return;
    busy = false;
    empty.textContent = "There are no dead letters.";
    state = `${next ? "The first" : "All"} ${some(looked, "dead letter")}${groups.size > most ? `, the ${count(most)} largest of ${count(groups.size)} groups` : ""}, as they were at ${new Date().toLocaleTimeString()}.${went ? "" : " It did not go on."}`;
    draw();
  }

  context.follow([path(["queues", holder])], (_, status, answer) => {
    now.textContent = status === 200 ? `${count(answer.ready)} are there now.` : "";
    return "the groups are not live";
  });
  const clock = setInterval(draw, ageEvery);
  context.signal.addEventListener("abort", () => clearInterval(clock));
  look();
  return h("div", {}, h("p", { class: "dim" }, "Ids and numbers of four and more digits are #: they do not make a group."), element, h("div", { class: "panel" }, table, empty), pages);
}
