// The sources of a queue, a page at a time, by name: how each stands, and what a person can do about it.

import { ask, attempt, confirmOnce, h, update } from "./dom.js";
import { count, fromNow, visible } from "./format.js";
import { call, path } from "./gateway.js";
import { named } from "./named.js";

const columns = [
  { label: "Stream", text: (s) => visible(`${s.stream} of ${s.remote}${s.mode === "take" ? ", taken" : ""}`) },
  { label: "Lag", text: (s) => count(s.lag), number: true },
  { label: "Delivered", text: (s) => count(s.counts.delivered), number: true },
  { label: "Skipped", text: (s) => count(s.counts.skipped), number: true },
  { label: "Poisoned", text: (s) => count(s.counts.poisoned), number: true },
  { label: "Since", text: (s) => (s.since ? fromNow(s.since) : "–"), restless: true },
];

export function sources(context, queue, parameters) {
  return named(context, queue, parameters, {
    what: "source", columns, none: "The queue has no sources. A source feeds it from a JetStream stream.",
    make: (s) => s.name,
    stands: (cell, s) => update(cell, h("span", { class: s.state === "running" ? "badge" : s.state === "stopped" ? "badge bad" : "badge warn" }, s.state),
      s.reason ? h("p", { class: "text" }, visible(s.reason)) : null, context.admin ? h("div", { class: "actions" }, action(queue, s)) : null),
  });
}

function action(queue, s) {
  const at = path(["queues", queue, "sources", s.name]);
  const resume = (how) => call("POST", `${at}/resume`, how);
  if (s.state === "stopped") return h("button", { "data-as": "stopped", onclick: () => choose(s, resume) }, "Resume…");
  if (s.paused) return h("button", { "data-as": "paused", onclick: () => attempt(() => resume(""), "It goes on.") }, "Resume");
  return h("button", { "data-as": "runs", onclick: () => attempt(() => call("POST", `${at}/pause`, ""), "It stands.") }, "Pause");
}

// choose asks how a source goes on that has stopped.
function choose(s, resume) {
  const title = `Resume ${s.name}`;
  if (s.reason.startsWith("poisoned:")) {
    confirmOnce(title, `${visible(s.reason)}. The source passes over that message, which becomes no item.`, "Skip the message", () => resume('{"skip":true}'));
    return;
  }
  const accept = "The source takes the stream, and the consumer, as they are now.";
  if (s.mode === "take") {
    confirmOnce(title, `${visible(s.reason)}. ${accept}`, "Accept", () => resume('{"accept":true}'));
    return;
  }
  ask(title, [
    h("p", {}, `${visible(s.reason)}. ${accept} Or it goes on with a message, and what was pushed already comes again.`),
    h("label", {}, "With message", h("input", { name: "from_seq", inputmode: "numeric", autocomplete: "off", placeholder: "empty: accept" })),
  ], "Resume", (fields) => {
    const seq = fields.from_seq.value.trim();
    if (seq === "") return resume('{"accept":true}');
    if (!/^[1-9]\d{0,18}$/.test(seq)) throw new Error(`With message is “${seq}”: expected a whole number from 1 on, or nothing.`);
    return resume(`{"from_seq":${seq}}`);
  }, true);
}
