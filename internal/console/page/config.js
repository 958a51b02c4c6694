// The configuration of a queue, with what each field does.

import { explained } from "./configfield.js";
import { form } from "./form.js";
import { short } from "./format.js";
import { call, path } from "./gateway.js";

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
    name, label, effect, choices, numeric: isNumber(config[name]) || name === "max_interruptions", value: typeof config[name] === "boolean" ? config[name] : name === "backoff" ? backoffText(config[name]) : String(config[name]),
  }));
  const { element, show } = form(context, {
    check(field, value) {
      if (field.name === "backoff") return backoffOf(value);
      if (!field.numeric || (field.name === "max_interruptions" && value === "")) return JSON.stringify(value);
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
