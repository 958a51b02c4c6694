// One schedule: when it fires, why it stands, and its settings; and the form to make one.

import { attempt, confirmOnce, fill, h, note, update } from "./dom.js";
import { form } from "./form.js";
import { bytes, count, fromNow, headersOf, payloadBytes, short, visible } from "./format.js";
import { call, get, path } from "./gateway.js";
import { link, scheduleLink } from "./links.js";
import { late, standing, unzoned, zoned } from "./schedules.js";

const settle = 400; // milliseconds without a key before a preview

// at shows a time as a clock in the schedule's zone does, as far as the browser knows the zone.
function at(time, zone) {
  const how = { weekday: "short", year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
  for (const timeZone of [zone, "UTC"]) {
    try {
      return `${new Date(time).toLocaleString("en", { ...how, timeZone })} ${timeZone}`;
    } catch { /* an unknown zone */ }
  }
}

const when = (time, zone) => `${at(time, zone)} (${fromNow(time)})`;

const times = (list, zone) => (list?.length ? h("ol", { class: "times" }, list.map((time) => h("li", {}, when(time, zone)))) : h("p", { class: "dim" }, "None."));

export function schedule(context, { queue, name }) {
  const base = path(["queues", queue, "schedules", name]);
  const why = h("p", { class: "why", role: "status" }, "Loading…");
  const stands = h("span", { class: "badge warn", hidden: true });
  const facts = h("dl", { class: "facts panel" });
  const next = h("div");
  const pause = h("button", { onclick: () => attempt(() => call("POST", `${base}/${shown.paused ? "resume" : "pause"}`), shown.paused ? "It fires again." : "It stands.") }, "Pause");
  const actions = h("div", { class: "actions", hidden: true },
    h("button", { class: "main", onclick: () => attempt(async () => {
      const pushed = await call("POST", `${base}/run?${new URLSearchParams({ msg_id: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` })}`);
      note(pushed.id ? `Pushed ${pushed.id} to ${pushed.stream}.` : "Nothing was pushed: an earlier item of it lives.");
    }) }, "Run now"), pause,
    h("button", { onclick: () => confirmOnce("Begin anew", "Its next time is the first one after now, even one that has fired. That helps where it fired while a clock was wrong, and its next time lies far ahead.", "Begin anew", () => call("POST", `${base}/resume?from=now`)) }, "Begin anew"),
    h("button", { class: "danger", onclick: () => confirmOnce(`Delete ${name}`, "It fires no more. The items that it has pushed stay.", "Delete", async () => {
      await call("DELETE", base);
      location.hash = link(queue, "?tab=schedules").slice(1);
    }) }, "Delete"));
  const editor = settings(context, queue, name, async (change) => fields(await call("PATCH", base, JSON.stringify(change))), () => shown);
  let shown = null;

  context.follow([base], (_, status, answer) => {
    if (status !== 200) {
      why.className = "why bad";
      why.textContent = status === 404 ? `Queue ${queue} has no schedule ${name}: it was deleted, or has been done for a day.` : answer.error.description;
      actions.hidden = true;
      return status === 404 ? "no such schedule" : "the schedule is not shown";
    }
    shown = answer;
    why.className = "why";
    why.textContent = explain(answer);
    stands.hidden = !standing(answer);
    stands.textContent = standing(answer);
    actions.hidden = !context.admin;
    pause.textContent = answer.paused ? "Resume" : "Pause";
    const fact = (label, value) => [h("dt", {}, label), h("dd", {}, h("span", { class: "text" }, visible(value)))];
    update(facts, fact("Times", zoned(answer)), fact("Next", answer.next ? when(answer.next, answer.zone) : "–"),
      answer.due && answer.due !== answer.next ? fact("With its jitter", when(answer.due, answer.zone)) : null, fact("Last", answer.last ? when(answer.last, answer.zone) : "–"),
      fact("Fired", `${count(answer.counts.fired)}${answer.count ? ` of ${count(answer.count)}` : ""}`), fact("Missed", count(answer.counts.missed)), fact("Overlapped", count(answer.counts.overlapped)));
    update(next, times(answer.times, answer.zone));
    editor.show(fields(answer));
  });
  return h("section", {},
    h("div", { class: "head" }, h("h1", {}, name), h("span", {}, "schedule of ", h("a", { href: link(queue, "?tab=schedules") }, queue)), stands,
      context.admin ? actions : h("span", { class: "badge" }, "read only")),
    why, facts, h("h2", {}, "Next times"), h("div", { class: "panel" }, next), h("h2", {}, "Settings"), editor.element);
}

export function newSchedule(context, { queue }) {
  const input = h("input", { name: "name", autocomplete: "off", spellcheck: "false" });
  const editor = settings(context, queue, null, async (change) => {
    const name = input.value.trim();
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) throw new Error(`The name is “${name}”: expected 1 to 64 of A-Z a-z 0-9 - _.`);
    const there = await get(path(["queues", queue, "schedules", name])).then(() => true, (error) => {
      if (error.status !== 404) throw error;
      return false;
    });
    if (there) throw new Error(`There is a schedule ${name}.`);
    if (unzoned(change.spec)) delete change.zone;
    await call("PATCH", path(["queues", queue, "schedules", name]), JSON.stringify(change));
    location.hash = scheduleLink(queue, name).slice(1);
    return [];
  }, () => null);
  const begin = fields({ spec: "", zone: Intl.DateTimeFormat().resolvedOptions().timeZone, item: {}, count: 0, overlap: "skip", catch_up: "1h", missed: "one", jitter: "0s" });
  editor.show(begin.map((field) => (["spec", "zone"].includes(field.name) ? { ...field, always: true } : field)));
  return h("section", {},
    h("div", { class: "head" }, h("h1", {}, "New schedule"), h("span", {}, "of ", h("a", { href: link(queue, "?tab=schedules") }, queue))),
    h("div", { class: "filters" }, h("label", {}, "Name", input)), editor.element);
}

function explain(s) {
  if (s.done) return "It has no further time, and goes a day after it was done.";
  if (s.paused) return "It is paused. Times that pass meanwhile are no misses.";
  if (s.full) return `Its time has come, and the queue is full: it tries again every 5 seconds, for ${visible(short(s.catch_up))}.`;
  if (late(s)) return `Its time has come ${fromNow(s.due)}, and no pqd has fired it. Where a clock was set, firing stops for a minute.`;
  return `It fires ${fromNow(s.due)}.`;
}

// Fields of the item. They are stored together.
export const ofItem = ["payload", "headers", "priority", "key", "weight", "cost", "ttl"];

// fields are the settings of a schedule, with their effect.
export function fields(s) {
  const item = s.item ?? {};
  const binary = item.payload_base64 != null;
  const text = (value) => (value == null ? "" : String(value));
  return [
    { name: "spec", label: "Times", value: s.spec, effect: "Minutes, hours, days of the month, months and days of the week, such as 30 7 * * mon-fri; six fields begin with seconds. Or @every 90s, @daily, @at 2027-01-31T09:00:00Z." },
    { name: "zone", label: "Zone", value: unzoned(s.spec) ? "" : s.zone, effect: "Of the tz database, such as Europe/Berlin. Empty: UTC." },
    { name: "payload", label: "Payload", rows: 3, value: text(item.payload), effect: binary ? `It is ${bytes(payloadBytes(item).length)} that are no text. What is written here takes their place.` : "Of the items that it pushes." },
    { name: "headers", label: "Headers", rows: 2, value: headersOf(item).map(([name, value]) => `${name}: ${value}`).join("\n"), effect: "One a line, such as Season: autumn." },
    { name: "priority", label: "Priority", numeric: true, value: text(item.priority), effect: "A low number is urgent. Empty: the queue's." },
    { name: "key", label: "Key", value: text(item.key), effect: "Whose item it is, for queues that look at keys." },
    { name: "weight", label: "Weight", numeric: true, value: text(item.weight), effect: "The share of its key where keys take turns." },
    { name: "cost", label: "Cost", numeric: true, value: text(item.cost), effect: "What each delivery takes of the cost rates, 1 to 1000000. Empty: 1." },
    { name: "ttl", label: "Time to live", value: item.ttl ? short(item.ttl) : "", effect: "Empty: the queue's." },
    { name: "overlap", label: "While an earlier item lives", choices: ["skip", "one", "replace", "allow"], value: s.overlap, effect: "skip: the time passes. one: it pushes, unless an item waits. replace: the item that waits gets the new content. allow: it pushes." },
    { name: "catch_up", label: "Catches up", value: short(s.catch_up), effect: "How late it may fire. Older times are missed." },
    { name: "missed", label: "Of several due times", choices: ["one", "all"], value: s.missed, effect: "one: the last fires. all: each of the last 1,000." },
    { name: "jitter", label: "Jitter", value: short(s.jitter), effect: "It fires later by up to this, always by the same for the same time." },
    { name: "start", label: "From", value: text(s.start), effect: "No time before this fires, such as 2027-01-31T09:00:00Z." },
    { name: "end", label: "To", value: text(s.end), effect: "No time behind this fires." },
    { name: "count", label: "Count", numeric: true, value: text(s.count), effect: "How many times it fires in all. With 0 there is no bound." },
  ];
}

const whole = (field, value) => {
  if (!/^-?(0|[1-9]\d{0,14})$/.test(value)) throw new Error(`${field.label} is “${value}”: expected a whole number.`);
  return Number(value);
};

function check(field, value) {
  switch (field.name) {
    case "spec":
      if (value === "") throw new Error("Times are missing: expected such as 30 7 * * mon-fri.");
      return value;
    case "start": case "end": return value === "" ? null : value;
    case "zone": return value || "UTC";
    case "headers": return value.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
      const found = /^([^:\s]+):\s*(.*)$/.exec(line);
      if (!found) throw new Error(`“${line}”: expected a name, a colon and a value.`);
      return found.slice(1);
    });
  }
  if (field.numeric) return value === "" ? undefined : whole(field, value);
  return value;
}

// itemOf is the item that a form says, as a whole. old is the one that the schedule has.
export function itemOf(written, old) {
  const of = (field) => check({ name: field, label: field, numeric: ["priority", "weight", "cost"].includes(field) }, written[field]);
  const headers = {};
  for (const [header, value] of of("headers")) (headers[header] ??= []).push(value);
  return { headers, priority: of("priority"), weight: of("weight"), cost: of("cost"), key: written.key || undefined, ttl: written.ttl || undefined,
    ...(written.payload === "" && old.payload_base64 != null ? { payload_base64: old.payload_base64 } : { payload: written.payload }) };
}

// settings is the form of a schedule, with the times that what is written would have. was is the
// schedule as it is, or null.
function settings(context, queue, name, save, was) {
  const preview = h("div", { role: "status" });
  let timer;
  let asked = 0;

  // change is what a form says, with the item as a whole if a part of it is new.
  function change(object) {
    const c = { ...object };
    const part = ofItem.filter((field) => field in object);
    for (const field of part) delete c[field];
    if (part.length) c.item = itemOf(editor.values(), was()?.item ?? {});
    return c;
  }

  const editor = form(context, { check, save: (object) => save(change(object)) });

  async function show() {
    const mine = ++asked;
    const { spec, zone, start, end, count: most, jitter } = editor.values();
    if (spec === "") return fill(preview);
    const ask = { spec, jitter: jitter || undefined, start: start || undefined, end: end || undefined, ...(/^\d+$/.test(most) ? { count: Number(most) } : {}), ...(zone && !unzoned(spec) ? { zone } : {}) };
    try {
      const answer = await call("POST", `${path(["queues", queue, "schedules", name ?? "new"])}/preview`, JSON.stringify(ask));
      if (mine === asked) fill(preview, h("h2", {}, "With these settings it fires"), h("div", { class: "panel" }, times(answer.times, zone || "UTC")));
    } catch (error) {
      if (mine === asked) fill(preview, h("p", { class: "dim" }, error.message));
    }
  }
  editor.element.addEventListener("input", (event) => {
    if (!["spec", "zone", "start", "end", "count", "jitter"].includes(event.target.name)) return;
    clearTimeout(timer);
    timer = setTimeout(show, settle);
  });
  return { element: h("div", {}, editor.element, preview), show: editor.show };
}
