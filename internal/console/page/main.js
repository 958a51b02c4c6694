// The console: which view is shown, the theme, and the one stream of changes.

import { ask, fill, h } from "./dom.js";
import { cut, visible } from "./format.js";
import { get, setToken, watch } from "./gateway.js";
import { queues } from "./queues.js";
import { queue } from "./queue.js";
import { item } from "./item.js";
import { key } from "./key.js";
import { newSchedule, schedule } from "./schedule.js";
import { health } from "./health.js";

const main = document.getElementById("main");
const state = document.getElementById("state");
let leave = () => {};
let access = null;

// route returns the view of the address, such as #/q/jobs?tab=leased, #/q/jobs/i/<id>,
// #/q/jobs/k/<key> or #/q/jobs/s/<schedule>.
function route() {
  const [where, query = ""] = location.hash.replace(/^#/, "").split("?");
  const parameters = new URLSearchParams(query);
  let segments;
  try {
    segments = where.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return { name: "", view: lost, args: { why: "A % is not followed by two hexadecimal digits of UTF-8." } };
  }
  switch (`${segments[0] ?? ""} ${segments.length}`) {
    case " 0": return { name: "queues", view: queues, args: { parameters } };
    case "q 2": return { name: "queues", view: queue, args: { queue: segments[1], parameters } };
    case "q 3":
      if (segments[2] === "s") return { name: "queues", view: newSchedule, args: { queue: segments[1] } };
      break;
    case "q 4":
      if (segments[2] === "i") return { name: "queues", view: item, args: { queue: segments[1], id: segments[3] } };
      if (segments[2] === "s") return { name: "queues", view: schedule, args: { queue: segments[1], name: segments[3] } };
      if (segments[2] === "k") return { name: "queues", view: key, args: { queue: segments[1], key: segments[3], parameters } };
      break;
    case "health 1": return { name: "health", view: health, args: {} };
  }
  return { name: "", view: lost, args: { why: "Views are those of queues, of items, of keys, of schedules and of health." } };
}

// lost says that an address shows nothing.
function lost(_, { why }) {
  show(null, "");
  return h("section", {}, h("div", { class: "head" }, h("h1", {}, "There is no such view")),
    h("p", { class: "why bad", role: "alert" }, `The address ends in ${visible(cut(location.hash, 200))}. ${why}`), h("p", {}, h("a", { href: "#/" }, "All queues")));
}

function show(live, text) {
  state.className = `state ${live ?? ""}`;
  state.textContent = text;
  main.classList.toggle("old", live === "lost"); // what it shows
}

// showStreams says how the streams of a view are: lost, alive with something to say, or live.
function showStreams(streams) {
  const all = [...streams.values()];
  const told = all.find((s) => s.live === false) ?? all.find((s) => s.live === null) ?? all.find((s) => s.why || s.said.size > 0) ?? all[0];
  if (!told) return show(null, "not live");
  const why = told.why?.message ?? [...told.said.values()][0];
  if (told.live === null) show(null, "connecting");
  else if (!told.live) show("lost", why ?? "reconnecting");
  else show(why ? "part" : "live", why ?? "live");
}

// Going back leads to the place in a list where somebody left it, in all views of the history.
history.scrollRestoration = "manual";
const places = new Map(); // by the name of an entry: how far down, and the link that had the focus
let entry = "";

function enter() {
  entry = history.state?.entry ?? "";
  const known = places.has(entry);
  if (!known) {
    entry = `${Date.now()}-${Math.random()}`;
    history.replaceState({ entry }, "");
    places.set(entry, { y: 0, link: "" });
  }
  return known ? { ...places.get(entry) } : null;
}

addEventListener("scroll", () => { if (places.has(entry) && !returning) places.get(entry).y = scrollY; }, { passive: true });
for (const event of ["focusin", "click"]) {
  main.addEventListener(event, (e) => {
    const link = e.target.closest?.("a[href]");
    if (link && places.has(entry)) places.get(entry).link = link.getAttribute("href");
  }, { capture: true });
}

let returning = null; // ends a return

// comeBack goes to a place as soon as what was there is there again, unless somebody goes elsewhere.
function comeBack({ y, link }) {
  const until = Date.now() + 5000;
  const over = new AbortController();
  returning = over;
  const end = () => {
    over.abort();
    if (returning === over) returning = null;
  };
  for (const event of ["wheel", "pointerdown", "keydown", "touchstart"]) addEventListener(event, end, { signal: over.signal, passive: true });
  const look = () => {
    if (over.signal.aborted) return;
    const target = [...main.querySelectorAll("a[href]")].find((a) => a.getAttribute("href") === link);
    if (document.documentElement.scrollHeight - innerHeight >= y && (target || !link)) {
      scrollTo(0, y);
      target?.focus({ preventScroll: true });
      places.set(entry, { y, link });
      end();
    } else if (Date.now() < until) requestAnimationFrame(look);
    else end();
  };
  look();
}

// open shows the view of the address.
async function open(focus) {
  leave();
  returning?.abort();
  returning = null;
  const place = enter();
  const ended = new AbortController();
  const streams = new Map(); // to how each of them is
  leave = () => {
    ended.abort();
    for (const stream of streams.keys()) stream.abort();
    for (const dialog of document.querySelectorAll("dialog")) dialog.close(); // they are about what is left
  };
  const { name, view, args } = route();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    access ??= await enterAs();
  } catch (error) {
    if (ended.signal.aborted) return;
    if (error.status === 401) return askToken(error);
    fill(main, h("p", { class: "why bad", role: "alert" }, error.message));
    show("lost", "no connection");
    setTimeout(() => ended.signal.aborted || open(false), 2000);
    return;
  }
  if (ended.signal.aborted) return;
  const context = {
    admin: access.access === "admin",
    tenant: access.tenant,
    signal: ended.signal,
    // follow shows the answers to paths as they change. It returns what ends that. on returns
    // what is wrong with what is shown, if anything is.
    follow(paths, on) {
      const one = new AbortController();
      const how = { live: null, why: null, said: new Map() };
      streams.set(one, how);
      showStreams(streams);
      watch(paths, one.signal, (at, status, answer) => {
        const wrong = on(at, status, answer);
        if (typeof wrong === "string") how.said.set(at, wrong);
        else how.said.delete(at);
        if (!one.signal.aborted) showStreams(streams);
      }, (live, why) => {
        Object.assign(how, { live, why });
        showStreams(streams);
        if (why?.status === 401) askToken(why);
      });
      return () => {
        one.abort();
        streams.delete(one);
        showStreams(streams);
      };
    },
  };
  fill(main, view(context, args));
  document.title = `${main.querySelector("h1")?.textContent ?? ""} · pqbridge`;
  if (place) comeBack(place);
  else if (focus) {
    main.focus();
    scrollTo(0, 0);
  }
}

// enterAs returns what the user may do. The bridges, the store and what all do together are no tenant's to see.
async function enterAs() {
  const may = await get("/v1/access");
  document.querySelector("nav [data-view=health]").hidden = Boolean(may.tenant);
  document.querySelector(".brand span").textContent = may.tenant ? `pqbridge · ${may.tenant}` : "pqbridge";
  return may;
}

function askToken(refused) {
  show("lost", "no token");
  fill(main, h("p", { class: "empty" }, "This console asks for a token."));
  if (document.querySelector("dialog")) return;
  ask("Token", [h("label", {}, h("span", {}, refused.message),
    h("input", { name: "token", type: "password", autocomplete: "current-password" }))], "Open", async (fields) => {
    setToken(fields.token.value.trim());
    access = await enterAs();
    open(true);
  });
}

// The theme: that of the system, unless the user chose one.
const theme = document.getElementById("theme");
theme.value = localStorage.getItem("pqbridge-theme") ?? "auto";
function applyTheme() {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem("pqbridge-theme", theme.value);
}
theme.addEventListener("change", applyTheme);
applyTheme();

addEventListener("hashchange", () => open(true));
open(false);
