// All dead letters of a queue, back to where they come from: page by page, as long as the view
// is open.

import { ask, h, update } from "./dom.js";
import { count, some } from "./format.js";
import { call, get, path } from "./gateway.js";

const pageOf = 100;
const together = 8; // requests under way

// requeueAll has the button, and what it tells. holder has the dead letters; those of other
// queues stay, and so do those that a filter leaves out.
export function requeueAll(context, holder, queue, filter) {
  const element = h("div", { class: "requeue" });
  const of = `${filter.min || filter.max ? "All dead letters of these priorities" : "All dead letters"} of ${queue}`;
  const button = () => h("button", { type: "button", "data-as": "begin", onclick: begin }, "Requeue all…");
  const begin = () => ask("Requeue all", [h("p", {}, `${of} are pushed to it again, as far as it takes them. This goes on until all are looked at that are there now, you stop it, or you leave this view.`)], "Requeue all", async () => {
    const { ready } = await get(path(["queues", holder]));
    run(ready); // it goes on when the dialog is closed
  });
  update(element, button());

  async function run(all) {
    const began = Date.now();
    let looked = 0;
    let done = 0;
    let others = 0;
    let failed = 0;
    let first = ""; // why the first one failed
    let over = null; // why it ended
    const draw = () => update(element,
      over === null ? [h("progress", { max: Math.max(1, all), value: looked, "aria-label": "Dead letters looked at" }), h("button", { type: "button", "data-as": "stop", onclick: () => { over = "Stopped"; draw(); } }, "Stop")] : button(),
      h("span", { role: "status" }, `${over ?? "Requeueing"}: ${some(done, "dead letter")} requeued, ${count(failed)} failed${others ? `, ${count(others)} of other queues` : ""}, ${count(looked)} of ${count(all)} looked at.`),
      first ? h("span", { class: "error" }, `The first failure: ${first}`) : null);
    const one = async (item) => {
      if (item.dead?.origin !== queue || Date.parse(item.dead.at) > began) {
        others++;
        return;
      }
      try {
        await call("POST", path(["queues", holder, "items", item.id, "requeue"]));
        done++;
      } catch (error) {
        if (error.status === 404 && error.reason === "unknown") return; // somebody else was faster
        failed++;
        first ||= error.message;
      }
    };
    const goesOn = () => over === null && !context.signal.aborted;
    draw();
    try {
      for (let after = ""; goesOn() && looked < all; ) {
        const page = await get(path(["queues", holder, "items"], { ...filter, after, limit: pageOf }));
        const before = { done, failed };
        for (let i = 0; i < page.items.length && goesOn() && looked < all; i += together) {
          const part = page.items.slice(i, i + Math.min(together, all - looked));
          await Promise.all(part.map(one));
          looked += part.length;
          draw();
        }
        if (failed - before.failed >= pageOf && done === before.done) over ??= `Ended, because ${count(pageOf)} failed one after another`;
        if (!page.next) break;
        after = page.next;
      }
      over ??= "Done";
    } catch (error) {
      over = "Ended";
      first ||= error.message;
    }
    draw();
  }

  return element;
}
