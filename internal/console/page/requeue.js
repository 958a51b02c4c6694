// The button that brings all dead letters of a queue back to it.

import { ask, h } from "./dom.js";
import { errand } from "./errand.js";

// requeueAll has the button, and what it tells. holder has the dead letters; those of other
// queues stay, and so do those that a filter leaves out.
export function requeueAll(context, holder, queue, filter) {
  const of = `${filter.min || filter.max ? "All dead letters of these priorities" : "All dead letters"} of ${queue}`;
  const idle = () => h("button", { type: "button", "data-as": "begin", onclick: begin }, "Requeue all…");
  // Priorities are written as they are: a float does not have all whole numbers.
  const where = `{"origin":${JSON.stringify(queue)}${["min", "max"].filter((end) => filter[end]).map((end) => `,"${end}":${filter[end]}`).join("")}}`;
  const { element, run } = errand(context, { holder, queue, filter, idle });
  function begin() {
    ask("Requeue all", [h("p", {}, `${of} are pushed to it again, as far as it takes them. This goes on until all are looked at that are there now, you stop it, or you leave this view.`)], "Requeue all", async () => {
      run({ doing: "Requeueing", done: "requeued", bulk: { verb: "requeue", where } }); // it goes on when the dialog is closed
    });
  }
  return element;
}
