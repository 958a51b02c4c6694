// Taking a leased item away from its holder.

import { ask, h } from "./dom.js";
import { call, path } from "./gateway.js";

// revoke ends the lease with a fence, and no later one.
export const revoke = (queue, id, fence, { delay, reason }) => call("POST", path(["queues", queue, "items", id, "revoke"], { fence: String(fence), delay, reason }));

// takeAway asks before that.
export function takeAway(what, submit) {
  ask(`Take away ${what}`, [
    h("p", {}, "The holder loses the lease for good, whatever it says from now on, and learns that when it extends the lease. What it has done is done."),
    h("label", {}, "Delay", h("input", { name: "delay", placeholder: "none; 30s, 1h", autocomplete: "off" }), h("small", {}, "How long the item stays away.")),
    h("label", {}, "Reason", h("input", { name: "reason", autocomplete: "off" }), h("small", {}, "For the attempts of the item.")),
  ], "Take away", (fields) => submit({ delay: fields.delay.value.trim(), reason: fields.reason.value.trim() }), true);
}
