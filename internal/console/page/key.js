// One key of a queue: what it has, why that waits, and its settings.

import { blockers } from "./blocked.js";
import { attempt, fill, h, showTiles, update } from "./dom.js";
import { form } from "./form.js";
import { count, short, visible } from "./format.js";
import { call, path } from "./gateway.js";
import { items } from "./items.js";
import { cell, columnsOf } from "./keys.js";
import { link } from "./links.js";

export function key(context, { queue, key: name, parameters }) {
  const at = path(["queues", queue, "keys", name]);
  const why = h("p", { class: "why", role: "status" }, "Loading…");
  const tiles = h("dl", { class: "tiles" });
  const paused = h("span", { class: "badge warn", hidden: true }, "paused");
  const pause = h("button", { hidden: true }, "Pause");
  const list = h("div");
  let info = null;
  let config = null;
  let listed = false;
  const before = blockers(queue, () => info && config && update(why, explain(info, config), before.links()));

  const settings = form(context, {
    check(field, value) {
      if (value && field.numeric && !/^(0|[1-9]\d{0,14})$/.test(value)) throw new Error(`${field.label} is “${value}”: expected a whole number.`);
      return value === "" ? null : field.numeric ? Number(value) : value === "none" ? "" : value;
    },
    save: async (object) => fields(await call("PATCH", at, JSON.stringify(object)), config),
  });
  const change = (object, done) => attempt(() => call("PATCH", at, JSON.stringify(object)), done);
  pause.addEventListener("click", () => (info.settings.paused ? change({ paused: null }, "Its items are handed out again.") : change({ paused: true }, "Its items stay.")));

  context.follow([at, path(["queues", queue])], (where, status, answer) => {
    if (where !== at) {
      config = status === 200 ? answer.config : null;
    } else if (status === 200) {
      info = answer;
      before.look(info.waits_for, name);
    } else {
      why.className = "why bad";
      why.textContent = answer.error.description;
      info = null;
      return "the key is not shown";
    }
    if (!info || !config) return;
    why.className = "why";
    update(why, explain(info, config), before.links());
    showTiles(tiles, columnsOf([info]).map((c) => [c.label, cell(c, info)]));
    paused.hidden = !info.settings.paused;
    pause.hidden = false;
    pause.textContent = info.settings.paused ? "Resume" : "Pause";
    settings.show(fields(info.settings, config));
    if (!listed) fill(list, items(context, queue, parameters, { tab: "ready", queue, key: name }));
    listed = true;
  });
  return h("section", {},
    h("div", { class: "head" }, h("h1", { class: "text" }, visible(name)), h("span", {}, "key of ", h("a", { href: link(queue, "?tab=keys") }, queue)), paused,
      context.admin ? h("div", { class: "actions" }, pause) : h("span", { class: "badge" }, "read only")),
    why, tiles, h("h2", {}, "Settings"), settings.element, h("h2", {}, "Ready items"), list);
}

export function explain(k, config) {
  const paused = k.settings.paused ? " It is paused: pushes, leases and other keys go on." : "";
  switch (k.waits_for) {
    case "pause": return k.settings.paused ? "Its items wait until it is resumed. Pushes, leases and other keys go on." : "Its items wait because the queue is paused.";
    case "key_order": return "Its next item waits until the one before is settled: the queue hands them out one after another.";
    case "key_limit": return `Its next item waits until another one is settled: up to ${count(k.limit)} of them may be leased at a time.`;
    case "key_rate": case "key_cost_rate": return `Its next item waits until its ${k.waits_for === "key_rate" ? "rate" : "cost rate"} allows a delivery${k.retry ? `, in ${visible(short(k.retry))}` : ""}.`;
    case "rate": return "Its next item waits until the queue's rate allows a delivery.";
  }
  if (k.ready === 0) return `None of its items is ready.${paused}`;
  return config.fair ? "Nothing keeps its items: the next one goes when it is the turn of the key." : "Nothing keeps its items: the next one goes when those in front of it are gone.";
}

// fields are the settings of a key with their effect. An empty field is no setting.
export function fields(own, config) {
  const text = (value) => (value == null ? "" : String(value));
  const rate = (value) => (value === "" ? "none" : text(value && short(value)));
  return [
    { name: "limit", label: "Limit", numeric: true, value: text(own.limit), effect: config.key_order ? "The queue hands out the items of a key one after another, so the limit stays 1."
      : `How many of its items are leased at a time; 0: no limit. Empty: the queue's, ${config.key_limit ? count(config.key_limit) : "none"}.` },
    { name: "rate", label: "Rate", value: rate(own.rate), effect: `How many deliveries it gets in a time, such as 100/1m; none: no bound. Empty: the queue's, ${short(config.key_rate) || "none"}.` },
    { name: "cost_rate", label: "Cost rate", value: rate(own.cost_rate), effect: `How much cost it gets in a time, such as 1440/1s; none: no bound. Empty: the queue's, ${short(config.key_cost_rate) || "none"}.` },
    { name: "weight", label: "Weight", numeric: true, value: text(own.weight),
      effect: `Its share of the deliveries, 1 to 1000${config.fair ? "" : ", where keys take turns: in this queue they do not"}. Empty: what pushes say, otherwise 1.` },
  ];
}
