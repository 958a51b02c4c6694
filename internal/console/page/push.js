// The form to push an item.

import { h, note } from "./dom.js";
import { call, path } from "./gateway.js";

export const pushForm = {
  fields() {
    const id = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
    return [
      h("label", {}, "Payload", h("textarea", { name: "payload", rows: 6, class: "mono", spellcheck: "false" })),
      h("label", {}, "Priority", h("input", { name: "priority", inputmode: "numeric", placeholder: "the queue's, mostly 0" }), h("small", {}, "A low number is urgent.")),
      h("label", {}, "Headers", h("textarea", { name: "headers", rows: 2, class: "mono", spellcheck: "false", placeholder: "Season: autumn" }), h("small", {}, "One a line.")),
      h("label", {}, "Key", h("input", { name: "key", spellcheck: "false", autocomplete: "off" }), h("small", {}, "Whose item it is, for queues that look at keys.")),
      h("label", {}, "Weight", h("input", { name: "weight", inputmode: "numeric", placeholder: "none; 1 to 1000" }), h("small", {}, "The share of its key where keys take turns.")),
      h("label", {}, "Cost", h("input", { name: "cost", inputmode: "numeric", placeholder: "1; up to 1000000" }), h("small", {}, "What each delivery takes of the cost rates.")),
      h("label", {}, "Delay", h("input", { name: "delay", placeholder: "none; 30s, 1h30m" })),
      h("label", {}, "Time to live", h("input", { name: "ttl", placeholder: "the queue's; 30s, 1h30m" })),
      // A second attempt after a lost answer pushes nothing twice.
      h("input", { name: "id", type: "hidden", value: id }),
    ];
  },
  async submit(queue, fields) {
    const pushed = await call("POST", path(["queues", queue, "push"], {
      priority: fields.priority.value.trim(), delay: fields.delay.value.trim(), ttl: fields.ttl.value.trim(), key: fields.key.value.trim(), weight: fields.weight.value.trim(), cost: fields.cost.value.trim(), msg_id: fields.id.value,
      header: fields.headers.value.split("\n").map((line) => line.trim()).filter(Boolean),
    }), fields.payload.value);
    note(`Pushed ${pushed.id} to ${pushed.stream}.`);
  },
};
