// What a queue has by name, such as schedules, sources and links: a page at a time.

import { attempt, h, keep, setText, update } from "./dom.js";
import { some, visible } from "./format.js";
import { call, path } from "./gateway.js";
import { link } from "./links.js";

const pageOf = 50;

// named is the table of all of one kind. make is what names one, stands fills the last cell.
export function named(context, queue, parameters, { what, columns, none, make, stands }) {
  const after = parameters.get("after") ?? "";
  const all = `${what}s`;
  const to = (behind) => link(queue, `?${new URLSearchParams({ tab: all, ...(behind ? { after: behind } : {}) })}`);
  const body = h("tbody");
  const table = h("table", { hidden: true }, h("caption", { class: "unseen" }, `${all[0].toUpperCase()}${all.slice(1)} of ${queue}`),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Name"), columns.map((c) => h("th", { scope: "col", class: c.number ? "number" : null }, c.label)), h("th", { scope: "col" }, "Stands"))), body);
  const empty = h("p", { class: "empty" }, "Loading…");
  const pages = h("div", { class: "pages" });
  const row = (one) => h("tr", {}, h("th", { scope: "row" }, make(one)),
    columns.map((c) => h("td", { class: c.number ? "number" : null, "data-label": c.label })), h("td", { "data-label": "Stands" }));
  const show = (element, one) => {
    columns.forEach((c, i) => {
      const cell = element.children[i + 1];
      if (c.restless) cell.textContent = c.text(one);
      else setText(cell, c.text(one));
    });
    stands(element.lastElementChild, one);
  };
  context.follow([path(["queues", queue, all], { after, limit: pageOf })], (_, status, answer) => {
    const list = status === 200 ? answer[all] : [];
    keep(body, list, (one) => one.name, row, show);
    table.hidden = list.length === 0;
    empty.hidden = !table.hidden;
    empty.textContent = status !== 200 ? answer.error.description : after ? `No more ${all}.` : none;
    update(pages, h("span", {}, `${some(list.length, what)} on this page, by name`),
      h("span", { class: "actions" }, after ? h("a", { href: to(""), "data-as": "first" }, "First page") : null, answer.next ? h("a", { href: to(answer.next), "data-as": "next" }, "Next page") : null));
    return status === 200 ? null : `the ${all} are not shown`;
  });
  return h("div", {}, h("div", { class: "panel" }, table, empty), pages);
}

// standing fills a cell with the state of one, why it is so, and a button to pause it, or to resume it, unless another one is given.
export function standing(context, cell, at, one, badge, button) {
  const post = (verb, done) => () => attempt(() => call("POST", `${at}/${verb}`, ""), done);
  update(cell, h("span", { class: badge }, one.state), one.reason ? h("p", { class: "text" }, visible(one.reason)) : null,
    context.admin ? h("div", { class: "actions" }, button ?? (one.paused ? h("button", { "data-as": "paused", onclick: post("resume", "It goes on.") }, "Resume") : h("button", { "data-as": "runs", onclick: post("pause", "It stands.") }, "Pause"))) : null);
}
