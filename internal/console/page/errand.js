// An errand: one thing done to all dead letters of a queue that fit, page by page, as long as
// the view is open.

import { h, update } from "./dom.js";
import { count, some } from "./format.js";
import { call, get, path } from "./gateway.js";

const pageOf = 100;
const together = 8; // requests under way
const busyFor = 300; // milliseconds until a bulk operation is asked for again while another one is under way

// errand has the element that tells how it goes, with idle in it while none is under way. run
// does one to each dead letter of queue that holder has, that fits, and that was there when it
// began; others stay. done says what became of those, such as requeued; over hears of the end.
// bulk is the bulk operation that does the same, if one does: its verb and where.
export function errand(context, { holder, queue, filter, idle = () => null, over: ended = () => {} }) {
  const element = h("div", { class: "requeue" }, idle());

  async function run({ doing, done: did, fits = () => true, one, bulk }) {
    const began = Date.now();
    let all = 0; // there are, when it begins
    let looked = 0;
    let done = 0;
    let others = 0;
    let failed = 0;
    let first = ""; // why the first one failed
    let over = null; // why it ended
    const draw = () => update(element,
      over === null ? [h("progress", { max: Math.max(1, all), value: looked, "aria-label": "Dead letters looked at" }), h("button", { type: "button", "data-as": "stop", onclick: () => { over = "Stopped"; draw(); } }, "Stop")] : idle(),
      h("span", { role: "status" }, `${over ?? doing}: ${some(done, "dead letter")} ${did}, ${count(failed)} failed${others ? `, ${count(others)} of other queues` : ""}, ${count(looked)} of ${count(all)} looked at.`),
      first ? h("span", { class: "error" }, `The first failure: ${first}`) : null);
    const each = async (item) => {
      if (item.dead?.origin !== queue || Date.parse(item.dead.at) > began) {
        others++;
        return;
      }
      if (!fits(item)) return;
      try {
        await one(path(["queues", holder, "items", item.id]));
        done++;
      } catch (error) {
        if (error.status === 404 && error.reason === "unknown") return; // somebody else was faster
        failed++;
        first ||= error.message;
      }
    };
    const goesOn = () => over === null && !context.signal.aborted;
    // Its cursor passes over what dies from now on.
    const inBulk = async () => {
      const at = path(["queues", holder, "bulk", bulk.verb]);
      const to = bulk.verb === "requeue" ? `,"to":${JSON.stringify(queue)}` : "";
      for (let after = ""; goesOn(); ) {
        let answer;
        try {
          answer = await call("POST", at, `{"where":${bulk.where}${to}${after ? `,"after":${JSON.stringify(after)}` : ""}}`);
        } catch (error) {
          if (error.status !== 429 || error.reason !== "busy") throw error;
          await new Promise((wake) => setTimeout(wake, busyFor));
          continue;
        }
        done += answer.done;
        looked += answer.looked;
        draw();
        if (answer.stopped === "full") over ??= `Ended, because ${queue} is full`;
        if (!answer.next) return;
        after = answer.next;
      }
    };
    try {
      ({ ready: all } = await get(path(["queues", holder])));
      draw();
      if (bulk) await inBulk();
      for (let after = ""; !bulk && goesOn() && looked < all; ) {
        const page = await get(path(["queues", holder, "items"], { ...filter, after, limit: pageOf, attempts: true }));
        const before = { done, failed };
        for (let i = 0; i < page.items.length && goesOn() && looked < all; i += together) {
          const part = page.items.slice(i, i + Math.min(together, all - looked));
          await Promise.all(part.map(each));
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
    ended(done);
  }

  return { element, run };
}
