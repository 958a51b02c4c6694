// The sources of a queue, a page at a time, by name: how each stands, and what a person can do about it.

import { ask, confirmOnce, h } from "./dom.js";
import { count, fromNow, visible } from "./format.js";
import { call, path } from "./gateway.js";
import { named, standing } from "./named.js";

const columns = [
  { label: "From", text: (s) => visible(s.link ? `${s.queue} of ${s.remote}, link ${s.link}` : `${s.stream} of ${s.remote}${s.mode === "take" ? ", taken" : ""}`) },
  { label: "Lag", text: (s) => count(s.lag), number: true },
  { label: "Delivered", text: (s) => count(s.counts.delivered), number: true },
  { label: "Skipped", text: (s) => count(s.counts.skipped), number: true },
  { label: "Poisoned", text: (s) => count(s.counts.poisoned), number: true },
  { label: "Since", text: (s) => (s.since ? fromNow(s.since) : "–"), restless: true },
];

export function sources(context, queue, parameters) {
  return named(context, queue, parameters, {
    what: "source", columns, none: "The queue has no sources. A source feeds it from a JetStream stream, or from a queue of another store.",
    make: (s) => s.name,
    stands: (cell, s) => {
      const at = path(["queues", queue, "sources", s.name]);
      const badge = s.state === "running" ? "badge" : s.state === "stopped" ? "badge bad" : "badge warn";
      standing(context, cell, at, s, badge, s.state === "stopped" ? h("button", { "data-as": "stopped", onclick: () => choose(s, (how) => call("POST", `${at}/resume`, how)) }, "Resume…") : null);
    },
  });
}

// choose asks how a source goes on that has stopped.
function choose(s, resume) {
  const title = `Resume ${s.name}`;
  if (s.reason.startsWith("poisoned:")) {
    const [passed, skip] = s.link ? ["item, which becomes a dead letter of the other side", "Skip the item"] : ["message, which becomes no item", "Skip the message"];
    confirmOnce(title, `${visible(s.reason)}. The source passes over that ${passed}.`, skip, () => resume('{"skip":true}'));
    return;
  }
  const accept = s.link ? "The source goes on with the giver's number. What a restored giver had given since its backup comes again." : "The source takes the stream, and the consumer, as they are now." + (s.mode === "take" ? " What was restored with them comes again." : "");
  if (s.link || s.mode === "take") {
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
