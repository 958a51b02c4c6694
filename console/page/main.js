// The console: which view is shown, the theme, and the one stream of changes.

import { ask, fill, h } from "./dom.js";
import { cut, visible } from "./format.js";
import { get, setToken, watch } from "./gateway.js";
import { queues } from "./queues.js";
import { queue } from "./queue.js";
import { item } from "./item.js";
import { key } from "./key.js";
import { health } from "./health.js";

const main = document.getElementById("main");
const state = document.getElementById("state");
let leave = () => {};
let access = null;

// route returns the view of the address, such as #/q/jobs?tab=leased, #/q/jobs/i/<id> or
// #/q/jobs/k/<key>.
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
    case "q 4":
      if (segments[2] === "i") return { name: "queues", view: item, args: { queue: segments[1], id: segments[3] } };
      if (segments[2] === "k") return { name: "queues", view: key, args: { queue: segments[1], key: segments[3], parameters } };
      break;
    case "health 1": return { name: "health", view: health, args: {} };
  }
  return { name: "", view: lost, args: { why: "Views are those of queues, of items, of keys and of health." } };
}

// lost says that an address shows nothing.
function lost(_, { why }) {
  show(null, "");
  return h("section", {}, h("div", { class: "head" }, h("h1", {}, "There is no such view")),
    h("p", { class: "why bad", role: "alert" }, `The address ends in ${visible(cut(location.hash, 200))}. ${why}`), h("p", {}, h("a", { href: "#/" }, "All queues")));
}

function show(live, text) {
  state.className = `state ${live === null ? "" : live ? "live" : "lost"}`;
  state.textContent = text;
}

// open shows the view of the address.
async function open(focus) {
  leave();
  const ended = new AbortController();
  const streams = new Set();
  leave = () => {
    ended.abort();
    for (const stream of streams) stream.abort();
    for (const dialog of document.querySelectorAll("dialog")) dialog.close(); // they are about what is left
  };
  const { name, view, args } = route();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  try {
    access ??= await get("/v1/access");
  } catch (error) {
    if (ended.signal.aborted) return;
    if (error.status === 401) return askToken();
    fill(main, h("p", { class: "why bad", role: "alert" }, error.message));
    show(false, "no connection");
    setTimeout(() => ended.signal.aborted || open(false), 2000);
    return;
  }
  if (ended.signal.aborted) return;
  const context = {
    admin: access.access === "admin",
    signal: ended.signal,
    // follow shows the answers to paths as they change. It returns what ends that.
    follow(paths, on) {
      const one = new AbortController();
      streams.add(one);
      show(null, "connecting");
      watch(paths, one.signal, on, (live, why) => show(live, why ? why.message : live ? "live" : "reconnecting"));
      return () => {
        one.abort();
        streams.delete(one);
        if (streams.size === 0) show(null, "not live");
      };
    },
  };
  fill(main, view(context, args));
  document.title = `${main.querySelector("h1")?.textContent ?? ""} · pqbridge`;
  if (focus) main.focus();
}

function askToken() {
  show(false, "no token");
  fill(main, h("p", { class: "empty" }, "This console asks for a token."));
  ask("Token", [h("label", {}, h("span", {}, "The token in the file ", h("code", {}, "PQ_CONSOLE_TOKEN")),
    h("input", { name: "token", type: "password", autocomplete: "current-password" }))], "Open", async (fields) => {
    setToken(fields.token.value.trim());
    access = await get("/v1/access");
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
