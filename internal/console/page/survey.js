// All queues by a column, step by step: each step reads a bounded number of them, when asked.

import { attempt, h } from "./dom.js";
import { count, some } from "./format.js";
import { path } from "./gateway.js";
import { sorted, sums } from "./columns.js";

const stepOf = 1000; // queues of a step
const readOf = 100; // queues of a request

// survey shows the queues that come first by a column, and the sums of all that it looked at.
export async function survey(get, { prefix, by, most, back }, show, problem, signal) {
  let first = [];
  let looked = 0;
  let all = sums([]);
  const draw = (state, next) => show(first, { label: `${next ? "The first" : "All"} ${some(looked, "queue")}`, sums: all }, [
    h("span", { role: "status" }, state),
    h("span", { class: "actions" }, next && !state.endsWith("…") ? h("button", { "data-as": "more", onclick: () => step(next) }, `Look at ${count(stepOf)} more`) : null, h("a", { href: back, "data-as": "back" }, "Back to the page")),
  ]);
  const step = async (next) => {
    if (!(await attempt(() => look(next)))) draw("It did not go on", next);
  };
  const look = async (next) => {
    for (const end = looked + stepOf; next != null && looked < end; ) {
      draw(`Looking behind ${some(looked, "queue")}…`, next);
      const page = await get(path(["overview"], { prefix, after: next, limit: readOf }));
      if (signal.aborted) return;
      looked += page.queues.length;
      all = sums(page.queues, all);
      first = sorted([...first, ...page.queues], by).slice(0, most);
      next = page.next;
    }
    problem.textContent = "";
    draw(`The ${count(first.length)} of ${some(looked, "queue")} with the largest ${by.label}, as they were at ${new Date().toLocaleTimeString()}`, next);
  };
  await step("");
}
