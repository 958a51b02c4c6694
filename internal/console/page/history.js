// The last hour, minute by minute, as small charts.

import { h, update } from "./dom.js";
import { count } from "./format.js";

const flows = ["push", "pop", "settle", "nacked", "failed", "dead", "leases_lost"];
const lengths = ["ready", "leased", "delayed"];

// merged returns what adds up the histories of several bridges, each of which knows what went
// through it: answers come now from one, now from another.
function merged() {
  const known = new Map(); // by bridge
  return (answer) => {
    known.set(answer.bridge, answer);
    const end = Math.max(...[...known.values()].map((a) => Date.parse(a.end)));
    const all = { step: answer.step, end };
    for (const [bridge, a] of known) {
      const late = Math.round((end - Date.parse(a.end)) / 1000 / a.step);
      if (late > 2) {
        known.delete(bridge); // it has gone
        continue;
      }
      const shifted = (values) => [...values.slice(late), ...Array(late).fill(null)];
      for (const name of flows) if (a[name]) all[name] = shifted(a[name]).map((n, i) => n == null ? all[name]?.[i] ?? null : n + (all[name]?.[i] ?? 0));
      for (const name of lengths) if (a[name]) all[name] = shifted(a[name]).map((n, i) => n ?? all[name]?.[i] ?? null);
    }
    return all;
  };
}

const unknown = Array(60).fill(null);

// charts shows histories. Each chart has a title and lines, which have a name and a label. It has its place before a history
// is known: what is below does not move under a click, or after a return.
export function charts(all) {
  const element = h("div", { class: "charts" });
  const merge = merged();
  const draw = (past) => update(element, all.map(({ title, lines }) => figure(title, lines.map((l) => ({ ...l, values: past[l.name] ?? unknown })), past)));
  draw({ end: Date.now(), step: 60 });
  return {
    element,
    show(answer) {
      draw(merge(answer));
      element.hidden = false;
    },
    hide: () => { element.hidden = true; },
  };
}

const width = 240;
const height = 56;

function figure(title, lines, { end, step }) {
  const most = Math.max(1, ...lines.flatMap((l) => l.values.map((n) => n ?? 0)));
  const last = (values) => values.findLast((n) => n != null);
  const told = lines.map(({ label, values }) => {
    const top = Math.max(...values.map((n) => n ?? -1));
    if (top < 0) return `${label}: unknown`;
    const ago = Math.round((values.length - values.lastIndexOf(top)) * step / 60);
    return `${label}: ${count(last(values))} last, at most ${count(top)}${top > 0 ? `, ${ago} min ago` : ""}`;
  });
  const time = (i, n) => new Date(end - (n - i) * step * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const n = lines[0].values.length;
  return h("figure", {},
    h("figcaption", {}, h("span", { class: "what" }, title), lines.map((l, i) => h("span", { class: `line line-${i}` }, `${l.label} `, h("strong", {}, last(l.values) == null ? "–" : count(last(l.values)))))),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title} in the last hour. ${told.join(". ")}.` },
      svg("path", { class: "axis", d: `M0 ${height - 1}H${width}` }),
      lines.map((l, i) => svg("path", { class: `line-${i}`, d: path(l.values, most) })),
      Array.from({ length: n }, (_, i) => svg("rect", { x: i * width / n, y: 0, width: width / n, height },
        svg("title", {}, `${time(i, n)}: ${lines.map((l) => `${l.label} ${l.values[i] == null ? "unknown" : count(l.values[i])}`).join(", ")}`)))),
    h("p", { class: "scale", "aria-hidden": "true" }, h("span", {}, "60 min ago"), h("span", {}, lines.some((l) => l.values.some((n) => n != null)) ? `at most ${count(most)}` : "unknown"), h("span", {}, time(n, n))));
}

// path is a line with a gap where a number is unknown.
function path(values, most) {
  let d = "";
  values.forEach((n, i) => {
    if (n == null) return;
    const x = ((i + 0.5) * width / values.length).toFixed(1);
    const y = (height - 2 - n / most * (height - 6)).toFixed(1);
    d += i > 0 && values[i - 1] != null ? `L${x} ${y}` : `M${x} ${y}h.1`;
  });
  return d;
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.flat(Infinity));
  return element;
}
