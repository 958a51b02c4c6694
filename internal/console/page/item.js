// One item: what it holds, and why it waits.

import { showCause } from "./cause.js";
import { ask, attempt, confirmOnce, fill, h, note, update } from "./dom.js";
import { bytes, count, cut, fromNow, headersOf, hex, indent, payloadBytes, span, visible } from "./format.js";
import { call, get, path } from "./gateway.js";
import { holderLink, keyLink, link } from "./links.js";
import { revoke, takeAway } from "./revoke.js";
import { delivered, outcome } from "./why.js";

const most = 64 << 10; // bytes of a payload that are shown at once
const mostJSON = 1 << 20; // of one that is shown indented
const mostHeaders = 100;
const mostValue = 4 << 10; // characters of a header

export function item(context, { queue, id }) {
  const base = path(["queues", queue, "items", id]);
  const at = `${base}?attempts=true&explain=true`;
  const problem = h("p", { class: "why bad", role: "alert", hidden: true });
  const why = h("p", { class: "why text", hidden: true });
  const facts = h("dl", { class: "facts panel" });
  const attempts = h("div");
  const headers = h("div");
  const payload = h("div");
  const actions = h("div", { class: "actions" });
  let item = null;
  let shown = null; // the headers and the payload that are shown
  let state = null; // what the buttons are for
  let position = null;

  const draw = () => {
    if (!item) return;
    problem.hidden = true;
    showCause(why, queue, item.explain, item.id);
    update(facts, factsOf(queue, item, position));
    showAttempts(attempts, item);
    const now = `${item.state} ${item.priority} ${item.fence} ${item.held}`;
    if (context.admin && now !== state) fill(actions, item.held ? null : buttons(queue, base, item));
    state = now;
    const content = JSON.stringify([item.headers, item.headers_base64, item.payload, item.payload_base64]);
    if (content === shown) return;
    shown = content;
    showHeaders(headers, item);
    showPayload(payload, payloadBytes(item));
  };

  context.follow([at], (_, status, answer) => {
    if (status === 200) {
      const again = !item || item.state !== answer.state || item.priority !== answer.priority;
      item = answer;
      if (again && item.state === "ready" && !item.dead) locate();
    } else {
      item = state = null;
      why.hidden = true;
      problem.hidden = false;
      problem.textContent = status === 404 ? "The item is not in this queue any more: it was popped, acknowledged, cancelled or removed, or has died or expired." : answer.error.description;
      fill(actions);
      return status === 404 ? "the item is gone" : "the item is not shown";
    }
    draw();
  });

  // locate finds the place of the item among the first ones, once.
  async function locate() {
    try {
      const page = await get(path(["queues", queue, "items"], { limit: 1000 }));
      const place = page.items.findIndex((i) => i.id === id);
      position = place >= 0 ? place + 1 : page.next ? -1 : null;
      draw();
    } catch { /* it is not needed */ }
  }

  return h("section", {},
    h("div", { class: "head" }, h("h1", { class: "mono" }, id), h("span", {}, "in ", h("a", { href: link(queue) }, queue)), actions),
    problem, why, facts, attempts, h("h2", {}, "Headers"), headers, payload);
}

const when = (time) => `${new Date(time).toLocaleString()} (${fromNow(time)})`;
const fact = (name, value) => [h("dt", {}, name), h("dd", {}, h("span", { class: "text" }, visible(value)))];

// factsOf are what there is to say of an item beside its attempts, its headers and its payload. position is its place, if that is known.
export function factsOf(queue, item, position) {
  return [
    fact("State", item.state), position && item.state === "ready" && !item.dead ? fact("Place when opened", before(position)) : null, fact("Priority", String(item.priority)), fact("Pushed", when(item.pushed)), fact("Deliveries", delivered(item)),
    item.cost ? fact("Cost", `${count(item.cost)} a delivery`) : null,
    item.key ? [h("dt", {}, "Key"), h("dd", {}, h("a", { class: "text", href: keyLink(item.dead?.origin ?? queue, item.key) }, visible(item.key)))] : null,
    item.state === "delayed" && item.due ? fact("Ready", when(item.due)) : null, item.lease_expires ? fact("Lease ends", when(item.lease_expires)) : null, item.expires ? fact("Expires", when(item.expires)) : null,
    item.holder ? [h("dt", {}, "Held by"), h("dd", {}, h("a", { class: "text", href: holderLink(queue, item.holder) }, visible(item.holder)))] : null,
    item.progress ? fact("Progress", `${item.progress}${item.progress_at ? `, said ${when(item.progress_at)}` : ""}`) : null,
    item.fence ? fact("Fence", String(item.fence)) : null, item.key_fence ? fact("Key fence", String(item.key_fence)) : null, item.unique ? fact("Unique value", item.unique) : null,
    item.result_ttl ? fact("Result is kept for", item.result_ttl) : null,
    item.dead ? [fact("Died", item.dead.at ? when(item.dead.at) : "–"), fact("Why", item.dead.reason), fact("Deliveries before", item.dead.deliveries == null ? "–" : String(item.dead.deliveries)), fact("From queue", item.dead.origin), fact("Its id there", item.dead.origin_id)] : null,
  ];
}

// before says how many items are in front of one that is ready, if that is known.
function before(position) {
  if (position < 0) return "More than 1,000 items are before it.";
  if (position === 1) return "It is the next one.";
  return `${count(position - 1)} ${position === 2 ? "item is" : "items are"} before it.`;
}

// showAttempts tells how each lease without success ended, the last one first.
function showAttempts(to, item) {
  const all = [...item.last_attempts ?? []].reverse();
  if (!all.length) return update(to);
  const columns = ["Number", "Ended", "Lasted", "Held by", "Outcome", "Reason"];
  const lasted = (a) => (a.start ? span((Date.parse(a.end) - Date.parse(a.start)) / 1000) : "–");
  const cells = (a) => [when(a.end), lasted(a), a.holder ? visible(a.holder) : "–", outcome(a), a.reason ? visible(a.reason) : "–"];
  update(to, h("h2", {}, "Attempts"), h("div", { class: "panel" }, h("table", {}, h("caption", { class: "unseen" }, "Leases that ended without success"),
    h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col" }, c)))),
    h("tbody", {}, all.map((a) => h("tr", { "data-as": String(a.n) }, h("th", { scope: "row" }, String(a.n)), cells(a).map((text, i) => h("td", { "data-label": columns[i + 1], title: i === 0 && a.start ? `Began ${when(a.start)}` : null }, h("span", { class: "text" }, text)))))))),
    all.at(-1).n > 1 ? h("p", { class: "dim" }, "Earlier ones are forgotten.") : null);
}

function showHeaders(to, item) {
  const all = headersOf(item);
  const pairs = all.slice(0, mostHeaders);
  if (!pairs.length) return fill(to, h("p", { class: "dim" }, "None."));
  fill(to, h("div", { class: "panel" }, h("table", { class: "pairs" }, h("caption", { class: "unseen" }, "Headers"), h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Name"), h("th", { scope: "col" }, "Value"))),
    h("tbody", {}, pairs.map(([name, value]) => h("tr", {}, h("th", { scope: "row", class: "mono" }, visible(cut(name, 128))), h("td", { class: "mono wide" }, h("span", { class: "text" }, visible(cut(value, mostValue))))))))),
    all.length > mostHeaders ? h("p", { class: "dim" }, `And ${count(all.length - mostHeaders)} more.`) : null);
}

function showPayload(to, data) {
  let all = data.length <= most;
  let form = null;
  const pre = h("pre", { class: "payload panel", tabindex: 0, "aria-label": "Payload" });
  const text = () => new TextDecoder().decode(data);
  let parsed; // undefined: it is no JSON
  try {
    if (data.length <= mostJSON) parsed = JSON.parse(text());
  } catch { /* it is none */ }
  const isText = (() => {
    try {
      new TextDecoder("utf-8", { fatal: true }).decode(data);
      return true;
    } catch {
      return false;
    }
  })();
  const choices = h("div", { class: "actions", role: "group", "aria-label": "Show the payload as" });
  const show = (as) => {
    form = as;
    const part = all ? data : data.subarray(0, most);
    pre.classList.toggle("hex", as === "hex");
    if (as === "hex") pre.textContent = hex(part);
    else {
      const full = as === "json" ? indent(text()) : text();
      pre.textContent = visible(all ? full : full.slice(0, most));
    }
    const button = (name, label, can = true) => h("button", { type: "button", "aria-pressed": String(as === name), class: as === name ? "main" : null, disabled: !can, onclick: () => show(name) }, label);
    fill(choices, button("text", "Text"), button("json", "JSON", parsed !== undefined), button("hex", "Hex"),
      all ? null : h("button", { type: "button", onclick: () => { all = true; show(form); } }, `Show all ${bytes(data.length)}`));
  };
  show(parsed !== undefined && typeof parsed === "object" ? "json" : isText ? "text" : "hex");
  fill(to, h("h2", {}, `Payload, ${bytes(data.length)}`), choices, data.length ? pre : h("p", { class: "dim" }, "It is empty."));
}

function buttons(queue, at, item) {
  return [
    item.dead ? h("button", { class: "main", onclick: () => attempt(async () => {
      const pushed = await call("POST", `${at}/requeue`);
      note(`It is ${pushed.id} in ${pushed.stream} now.`);
    }) }, `Requeue to ${item.dead.origin}`) : null,
    item.state === "leased" ? h("button", { class: "danger", onclick: () => takeAway(item.holder ? `the item from ${visible(cut(item.holder, 128))}` : "the item", async (how) => {
      const { state } = await revoke(queue, item.id, item.fence, how);
      note(`It is ${state} now.`);
    }) }, "Take away") : null,
    h("button", { onclick: () => ask("Move", [h("label", {}, "New priority", h("input", { name: "priority", inputmode: "numeric", value: String(item.priority) }), h("small", {}, "A low number is urgent. A leased item moves when it returns."))], "Move",
      (fields) => call("POST", `${at}/move?${new URLSearchParams({ priority: fields.priority.value.trim() })}`)) }, "Move"),
    item.dead ? null : h("button", { class: "danger", onclick: () => ask("Cancel the item", [
      h("p", {}, item.state === "leased" ? "Its handler hears of that at once, and ends. Nothing brings the item back." : "Nobody will work on it. Nothing brings it back."),
      h("label", {}, "Reason", h("input", { name: "reason", autocomplete: "off" }), h("small", {}, "For its result, and for who works on it.")),
    ], "Yes, cancel it", async (fields) => {
      const { outcome } = await call("POST", `${at}/cancel?${new URLSearchParams({ reason: fields.reason.value.trim() })}`);
      note(outcome === "cancelled" ? "It is cancelled." : `It had ended before: ${outcome}.`);
      location.hash = link(queue).slice(1);
    }, true) }, "Cancel item"),
    h("button", { class: "danger", onclick: () => confirmOnce("Remove the item", item.state === "leased" ? "A consumer works on it, and loses its lease. Nothing brings the item back." : "Nothing brings it back.", "Remove", async () => {
      await call("DELETE", at);
      location.hash = link(queue).slice(1);
    }) }, "Remove"),
  ];
}
