// One queue: its numbers, its items by state, its dead letters, its keys, its configuration.

import { ask, attempt, confirmTyped, fill, h, setText } from "./dom.js";
import { bytes, count, rate, span } from "./format.js";
import { call, path } from "./gateway.js";
import { configuration } from "./config.js";
import { items } from "./items.js";
import { keys } from "./keys.js";
import { link } from "./links.js";
import { pushForm } from "./push.js";

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
    shown ??= fill(content, view(info.config));
  });

  function view(config) {
    switch (tab) {
      case "config": return configuration(context, name, config);
      case "keys": return keys(context, name, parameters);
      case "dead": return items(context, config.dead_letter || `${name}-dead`, parameters, { tab, queue: name });
    }
    return items(context, name, parameters, { tab, queue: name });
  }

  const tabs = [["ready", "Ready"], ["leased", "Leases"], ["delayed", "Delayed"], ["dead", "Dead letters"], ["keys", "Keys"], ["config", "Configuration"]];
  return h("section", {},
    h("div", { class: "head" }, h("h1", {}, name), head.paused, context.admin ? h("div", { class: "actions" },
      h("button", { class: "main", onclick: () => ask(`Push to ${name}`, pushForm.fields(), "Push", (fields) => pushForm.submit(name, fields)) }, "Push an item"),
      head.pause,
      h("button", { class: "danger", onclick: () => purge(name, at) }, "Purge"),
      h("button", { class: "danger", onclick: () => remove(name, at) }, "Delete")) : h("span", { class: "badge" }, "read only")),
    problem, tiles,
    h("nav", { class: "tabs", "aria-label": "What the queue has" }, tabs.map(([key, label]) => h("a", { href: link(name, key === "ready" ? "" : `?tab=${key}`), "aria-current": key === tab ? "page" : null }, label))),
    content);
}

function showTiles(tiles, info) {
  const numbers = [
    ["Ready", count(info.ready)], ["Leased", count(info.leased)], ["Delayed", count(info.delayed)], ["Waiting pops", count(info.waiting)],
    ["In per second", rate(info.rates.push)], ["Out per second", rate(info.rates.pop)], ["Age of the next", info.oldest ? span(info.oldest) : "–"],
    ["Age of the oldest", info.oldest_of_all ? `${info.oldest_at_least ? "≥ " : ""}${span(info.oldest_of_all)}` : "–"], ["Size", bytes(info.bytes)],
  ];
  if (!tiles.children.length) tiles.append(...numbers.map(([label]) => h("div", {}, h("dt", {}, label), h("dd"))));
  numbers.forEach(([label, text], i) => {
    const value = tiles.children[i].querySelector("dd");
    if (label.includes("second") || label.startsWith("Age")) value.textContent = text;
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
