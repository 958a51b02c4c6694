// The bridges, the store, and the pqd that keep it together.

import { h, update } from "./dom.js";
import { bytes, count, cut, span, visible } from "./format.js";

export function health(context) {
  const problem = h("p", { class: "error", role: "alert" });
  const store = h("dl", { class: "facts panel" });
  const damage = h("div");
  const bridges = h("div", { class: "panel", tabindex: 0, role: "region", "aria-label": "Bridges" }, h("p", { class: "empty" }, "Loading…"));
  const nodes = h("div");
  const fact = (name, value) => [h("dt", {}, name), h("dd", { class: "text" }, value)];
  context.follow(["/v1/system", "/v1/bridges", "/v1/cluster"], (where, status, answer) => {
    if (where === "/v1/cluster") return showNodes(nodes, status, answer);
    if (status !== 200) {
      problem.textContent = answer.error.description;
      return "not all is shown";
    }
    problem.textContent = "";
    if (where === "/v1/bridges") {
      update(bridges, table("Bridges", ["Id", "Version", "Started", "Store"], answer.bridges.map((b) => [b.id, b.version, new Date(b.started).toLocaleString(), b.metadata.store_id])));
      return;
    }
    update(store, fact("Store", answer.store), fact("Its id", answer.store_id), answer.disk ? fact("Free on its disk", `${bytes(answer.disk.free)} of ${bytes(answer.disk.size)}${answer.disk.free < answer.disk.min_free ? `: pushes are refused, because ${bytes(answer.disk.min_free)} are to stay free` : ""}`) : null, fact("Version", answer.version), fact("Up for", span(answer.uptime)), fact("Prefix", answer.prefix),
      fact("Largest item", bytes(answer.limits.payload)), fact("Requests at a time", count(answer.limits.requests)), fact("Waiting pops", `up to ${count(answer.limits.waiters)}`));
    update(damage, answer.damage?.length ? h("div", { class: "why bad", role: "alert" }, h("strong", {}, "Files of the store are damaged."), h("ul", {}, answer.damage.slice(0, 50).map((d) => h("li", { class: "text" }, visible(cut(d, 500)))), answer.damage.length > 50 ? h("li", {}, `and ${count(answer.damage.length - 50)} more`) : null)) : null);
  });
  return h("section", {}, h("div", { class: "head" }, h("h1", {}, "Health")), problem, damage, h("h2", {}, "Store"), store, h("h2", {}, "Bridges"), bridges, nodes);
}

function table(caption, columns, rows) {
  return h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col" }, c)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, i) => (i === 0 ? h("th", { scope: "row" }, cell) : h("td", { "data-label": columns[i] }, cell)))))));
}

function showNodes(to, status, answer) {
  if (status !== 200) {
    update(to); // one pqd keeps the store
    return;
  }
  const seen = new Map();
  for (const node of answer.nodes) {
    for (const member of node.members ?? []) {
      const known = seen.get(member.node);
      if (!known || member.heard < known.heard) seen.set(member.node, member);
    }
  }
  update(to, h("h2", {}, "Nodes of the store"), h("div", { class: "panel", tabindex: 0, role: "region", "aria-label": "Nodes of the store" }, table("Nodes", ["Node", "Role", "Behind by", "Epoch", "Version", "Reason"],
    [...seen.values()].sort((a, b) => a.node.localeCompare(b.node)).map((m) => [m.node, m.role, `${count(m.lag)} entries`, String(m.epoch), m.version, m.reason ?? "–"]))));
}
