// The configuration of a queue, with what each field does.

import { form } from "./form.js";
import { short } from "./format.js";
import { call, path } from "./gateway.js";

const explained = [
  ["priority", "Priority", "Of items that are pushed without one."],
  ["lease", "Lease", "Of pops that ask for none. With 0s they take items for good."],
  ["ttl", "Time to live", "Of items that are pushed without one. With 0s they never expire."],
  ["max_deliveries", "Deliveries", "An item that comes back after so many is dead. With 0 it never dies."],
  ["backoff", "Backoff", `How long an item stays away that comes back from a lease: by delivery, such as 1s, 10s, 1m, or as it grows, such as {"delay":"1s","factor":2,"max":"10m","jitter":0.1}. Empty: it is ready at once.`],
  ["attempts", "Attempts", "How many of its last leases without success an item remembers, up to 16."],
  ["dead_letter", "Dead-letter queue", "Where dead items go. Empty: the queue's name with -dead."],
  ["dead_letter_expired", "Expired items die", "Items that outlive their time to live go to the dead-letter queue, too."],
  ["dead_letters_from", "Takes dead letters of", "Queues, separated by commas; * takes those of all."],
  ["dedup_window", "Remembers ids for", "How long a repeated push or pop is known as one."],
  ["dedup_limit", "Remembers ids up to", "With so many, requests with new ids are refused."],
  ["ties", "Pops from the far end take", "Of the items with the highest priority.", ["newest", "oldest"]],
  ["max_length", "Length", "How many items the queue may have. With 0 there is no limit."],
  ["max_bytes", "Bytes", "How many bytes the items may have, with 512 for each besides its payload and headers. With 0 there is no limit but that of pqd."],
  ["overflow", "A push to a full queue", "Is refused, or evicts the least urgent item.", ["refuse", "evict"]],
  ["key_limit", "Leases of a key", "How many items of one key are leased at a time. With 0 there is no limit."],
  ["key_order", "Keys in order", "The items of a key are handed out one after another."],
  ["strict", "Strict", "No pop passes over a more urgent item whose push commits meanwhile, on any store: pops then run again."],
  ["hand_over", "Hands over to", "Queues to which a push may hand over leased items, separated by commas; * allows all."],
  ["fair", "Keys take turns", "priority: within each priority. 0,100: within classes that begin at these. Empty: they do not."],
  ["rate", "Rate", "Deliveries of the queue, such as 100/1m. Empty: no bound."],
  ["key_rate", "Rate of a key", "Deliveries of each key."],
];

// A backoff is written as a list with commas, or as the JSON that it is.
const backoffText = (backoff) => (backoff === "" ? "" : Array.isArray(backoff) ? backoff.map(short).join(", ") : JSON.stringify(backoff));

function backoffOf(text) {
  if (!/^[[{]/.test(text)) return JSON.stringify(text === "" ? "" : text.split(",").map((delay) => delay.trim()));
  try {
    JSON.parse(text);
  } catch {
    throw new Error(`Backoff is ${text}: expected delays such as 1s, 10s, 1m, or an object such as {"delay":"1s"}.`);
  }
  return text;
}

const isNumber = (value) => typeof value === "number" || typeof value === "bigint";

// configuration has the element with the form, and show, which shows another configuration.
export function configuration(context, queue) {
  const fields = (config) => explained.filter(([name]) => config[name] !== undefined).map(([name, label, effect, choices]) => ({
    name, label, effect, choices, numeric: isNumber(config[name]), value: typeof config[name] === "boolean" ? config[name] : name === "backoff" ? backoffText(config[name]) : String(config[name]),
  }));
  const { element, show } = form(context, {
    check(field, value) {
      if (field.name === "backoff") return backoffOf(value);
      if (!field.numeric) return JSON.stringify(value);
      if (!/^-?(0|[1-9]\d*)$/.test(value)) throw new Error(`${field.label} is “${value}”: expected a whole number.`);
      return value; // as it is written: a float does not have all whole numbers
    },
    async save(object) {
      const text = Object.entries(object).map(([name, value]) => `${JSON.stringify(name)}:${value}`).join();
      return fields(await call("PATCH", path(["queues", queue, "config"]), `{${text}}`));
    },
  });
  return { element, show: (config) => show(fields(config)) };
}
