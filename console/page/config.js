// The configuration of a queue, with what each field does.

import { attempt, h, note } from "./dom.js";
import { call, path } from "./gateway.js";

const explained = [
  ["priority", "Priority", "Of items that are pushed without one."],
  ["lease", "Lease", "Of pops that ask for none. With 0s they take items for good."],
  ["ttl", "Time to live", "Of items that are pushed without one. With 0s they never expire."],
  ["max_deliveries", "Deliveries", "An item that comes back after so many is dead. With 0 it never dies."],
  ["dead_letter", "Dead-letter queue", "Where dead items go. Empty: the queue's name with -dead."],
  ["dead_letter_expired", "Expired items die", "Items that outlive their time to live go to the dead-letter queue, too."],
  ["dead_letters_from", "Takes dead letters of", "Queues, separated by commas; * takes those of all."],
  ["dedup_window", "Remembers ids for", "How long a repeated push or pop is known as one."],
  ["dedup_limit", "Remembers ids up to", "With so many, requests with new ids are refused."],
  ["ties", "Pops from the far end take", "Of the items with the highest priority.", ["newest", "oldest"]],
  ["max_length", "Length", "How many items the queue may have. With 0 there is no limit."],
  ["overflow", "A push to a full queue", "Is refused, or evicts the least urgent item.", ["refuse", "evict"]],
  ["key_limit", "Leases of a key", "How many items of one key are leased at a time. With 0 there is no limit."],
  ["key_order", "Keys in order", "The items of a key are handed out one after another."],
  ["strict", "Strict", "No pop passes over a more urgent item whose push commits meanwhile, on any store: pops then run again."],
  ["hand_over", "Hands over to", "Queues to which a push may hand over leased items, separated by commas; * allows all."],
  ["fair", "Keys take turns", "priority: within each priority. 0,100: within classes that begin at these. Empty: they do not."],
  ["rate", "Rate", "Deliveries of the queue, such as 100/1m. Empty: no bound."],
  ["key_rate", "Rate of a key", "Deliveries of each key."],
];

const isNumber = (value) => typeof value === "number" || typeof value === "bigint";

export function configuration(context, queue, config) {
  let known = config;
  const inputs = explained.map(([name, label, effect, choices]) => {
    const value = known[name];
    const off = { name, disabled: !context.admin };
    let input;
    if (typeof value === "boolean") input = h("input", { ...off, type: "checkbox", checked: value });
    else if (choices) input = h("select", off, choices.map((c) => h("option", { value: c, selected: c === value }, c)));
    else input = h("input", { ...off, value: String(value), inputmode: isNumber(value) ? "numeric" : null, spellcheck: "false", autocomplete: "off" });
    return h("label", {}, label, input, h("small", { class: "dim" }, effect));
  });
  const save = async (event) => {
    event.preventDefault();
    const changed = [];
    const fields = [];
    for (const [name, label] of explained) {
      const input = event.target.elements[name];
      const value = input.type === "checkbox" ? input.checked : input.value.trim();
      if (typeof value === "string" ? value === String(known[name]) : value === known[name]) continue;
      if (isNumber(known[name]) && !/^-?(0|[1-9]\d*)$/.test(value)) return note(`${label} is “${value}”: expected a whole number.`, true);
      changed.push(name);
      fields.push(`${JSON.stringify(name)}:${isNumber(known[name]) ? value : JSON.stringify(value)}`); // a float does not have all whole numbers
    }
    if (changed.length === 0) return;
    await attempt(async () => {
      known = await call("PATCH", path(["queues", queue, "config"]), `{${fields.join()}}`);
    }, `Changed ${changed.join(", ")}.`);
  };
  return h("form", { class: "config panel", onsubmit: save }, inputs, context.admin ? h("div", { class: "actions" }, h("button", { class: "main" }, "Save")) : null);
}
