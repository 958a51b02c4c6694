// One queue: its numbers, its items by state, its dead letters, its keys, its configuration.

import { badges, showCause } from "./cause.js";
import { ask, attempt, confirmTyped, fill, h, setText, showTiles, update } from "./dom.js";
import { bytes, count, rate, short, span, visible } from "./format.js";
import { call, path } from "./gateway.js";
import { configuration } from "./config.js";
import { failures } from "./failures.js";
import { charts } from "./history.js";
import { items } from "./items.js";
import { keys } from "./keys.js";
import { link } from "./links.js";
import { pushForm } from "./push.js";
import { queueLinks } from "./queuelinks.js";
import { schedules } from "./schedules.js";
import { sources } from "./sources.js";

export function queue(context, { queue: name, parameters }) {
  const tab = parameters.get("tab") ?? "ready";
  const at = path(["queues", name]);
  const history = `${at}/history`;
  const problem = h("p", { class: "error", role: "alert" });
  const tiles = h("dl", { class: "tiles" });
  const past = charts(lines);
  const wrong = h("span", { class: "badges" });
  const why = h("p", { class: "why text", hidden: true });
  const pause = h("button", { onclick: () => attempt(() => call("POST", `${at}/${isPaused ? "resume" : "pause"}`), isPaused ? "Deliveries go on." : "Deliveries stop.") }, "Pause");
  const content = h("div");
  const dead = h("span", { class: "badge bad", hidden: true });
  const tabs = [["ready", "Ready"], ["leased", "Leases"], ["delayed", "Delayed"], ["dead", "Dead letters"], ["failures", "Failures"], ["keys", "Keys"], ["schedules", "Schedules"], ["sources", "Sources"], ["links", "Links"], ["config", "Configuration"]];
  const existing = [pause, // what is shown, and can be done, while there is the queue
    h("button", { class: "danger", onclick: () => purge(name, at) }, "Purge"), h("button", { class: "danger", onclick: () => remove(name, at) }, "Delete")];
  const nav = h("nav", { class: "tabs", "aria-label": "What the queue has" }, tabs.map(([key, label]) => h("a", { href: link(name, key === "ready" ? "" : `?tab=${key}`), "aria-current": key === tab ? "page" : null }, label, key === "dead" ? [" ", dead] : null)));
  const there = (is) => { for (const element of [...existing, tiles, nav, content]) element.hidden = !is; };
  let shown = null; // what the tab shows, once the configuration is known
  let isPaused = false;
  let grave = `${name}-dead`; // where its dead letters are, as far as that is known
  let stop = follow();
  there(false);

  function follow() {
    return context.follow([at, history, path(["queues", grave])], (where, status, answer) => {
      if (where === history) return status === 200 ? past.show(answer) : past.hide();
      if (where !== at) {
        const n = status === 200 ? answer.ready + answer.leased + answer.delayed : 0;
        dead.hidden = n === 0;
        setText(dead, count(n));
        return;
      }
      for (const element of [tiles, why]) element.classList.toggle("old", status !== 200);
      if (status === 404) {
        there(false);
        past.hide();
        update(wrong);
        why.hidden = true;
        problem.textContent = `There is no queue ${name}: it was deleted, or nothing was pushed to it yet.`;
        return "no such queue";
      }
      if (status !== 200) {
        problem.textContent = `${answer.error.description}. What is shown is old.`;
        return "not current";
      }
      problem.textContent = "";
      there(true);
      showTiles(tiles, numbers(answer), (label) => label.includes("second") || label.startsWith("Age"));
      isPaused = answer.paused;
      update(wrong, badges({ paused: isPaused, ...answer.explain }));
      showCause(why, name, answer.explain);
      pause.textContent = isPaused ? "Resume" : "Pause";
      if (!shown) fill(content, (shown = view(answer.config)).element ?? shown);
      shown.show?.(answer.config);
      const now = answer.config.dead_letter || `${name}-dead`;
      if (now === grave) return;
      grave = now;
      stop();
      stop = follow();
    });
  }

  function view(config) {
    switch (tab) {
      case "config": return configuration(context, name);
      case "schedules": return schedules(context, name, parameters);
      case "sources": return sources(context, name, parameters);
      case "links": return queueLinks(context, name, parameters);
      case "keys": return keys(context, name, parameters);
      case "failures": return failures(context, { holder: config.dead_letter || `${name}-dead`, queue: name });
      case "dead": return items(context, config.dead_letter || `${name}-dead`, parameters, { tab, queue: name });
    }
    return items(context, name, parameters, { tab, queue: name });
  }

  return h("section", {},
    h("div", { class: "head" }, h("h1", {}, name), wrong, context.admin ? h("div", { class: "actions" },
      h("button", { class: "main", onclick: () => ask(`Push to ${name}`, pushForm.fields(), "Push", (fields) => pushForm.submit(name, fields)) }, "Push an item"), existing) : h("span", { class: "badge" }, "read only")),
    problem, why, tiles, past.element, nav, content);
}

const lines = [
  { title: "Items a minute", lines: [{ name: "push", label: "in" }, { name: "pop", label: "out" }, { name: "settle", label: "settled" }] },
  { title: "Length", lines: [{ name: "ready", label: "ready" }, { name: "leased", label: "leased" }, { name: "delayed", label: "delayed" }] },
];

// numbers are those of a queue, with their labels. A queue without a rate of cost says nothing of cost.
export function numbers(info) {
  return [
    ["Ready", count(info.ready)], ["Leased", `${count(info.leased)}${info.held ? `, ${count(info.held)} held` : ""}`], ["Delayed", count(info.delayed)], ["Waiting pops", count(info.waiting)],
    ["In per second", rate(info.rates.push)], ["Out per second", rate(info.rates.pop)], ["Age of the next", info.oldest ? span(info.oldest) : "–"],
    ["Age of the oldest", info.oldest_of_all ? `${info.oldest_at_least ? "≥ " : ""}${span(info.oldest_of_all)}` : "–"], ["Size", bytes(info.bytes)],
    ...(info.cost_tokens == null ? [] : [["Cost rate", visible(short(info.config.cost_rate))], ["Cost tokens", count(info.cost_tokens)]]),
    ...(info.cost ? [["Cost reserved", count(info.cost.reserved)], ["Cost spent", count(info.cost.spent)]] : []),
  ];
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
