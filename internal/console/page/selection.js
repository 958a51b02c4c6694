// Items of a list that the user has chosen, and what can be done to all of them.

import { attempt, confirmOnce, h, note, update } from "./dom.js";
import { count, some } from "./format.js";
import { call, path } from "./gateway.js";
import { revoke, takeAway } from "./revoke.js";

export function selection(context, queue) {
  const ids = new Map(); // to whether it is dead, and the fence of its lease
  const actions = h("div", { class: "actions" });

  function draw() {
    update(actions, ids.size === 0 ? null : [
      [...ids.values()].every((i) => i.dead) ? h("button", { type: "button", "data-as": "requeue", class: "main", onclick: () => each("Requeue", (id) => call("POST", path(["queues", queue, "items", id, "requeue"]))) }, `Requeue ${count(ids.size)}`) : null,
      [...ids.values()].every((i) => i.fence) ? h("button", { type: "button", "data-as": "revoke", class: "danger", onclick: () => takeAway(some(ids.size, "item"), (how) => each("Take away", (id) => revoke(queue, id, ids.get(id).fence, how))) }, `Take away ${count(ids.size)}…`) : null,
      h("button", { type: "button", "data-as": "remove", class: "danger", onclick: () => confirmOnce(`Remove ${some(ids.size, "item")}`, "Nothing brings them back.", "Remove",
        () => each("Remove", (id) => call("DELETE", path(["queues", queue, "items", id])))) }, `Remove ${count(ids.size)}`),
    ]);
  }

  // each does something to one item after the other, and stops at the first failure.
  async function each(what, one) {
    let done = 0;
    await attempt(async () => {
      for (const id of [...ids.keys()]) {
        if (context.signal.aborted) return;
        await one(id);
        ids.delete(id);
        done++;
      }
    });
    note(`${what}: ${count(done)} done.`);
    draw();
  }

  return {
    actions,
    // box chooses an item.
    box: (item) => h("input", { type: "checkbox", "aria-label": `Choose ${item.id}`, onchange: (event) => {
      if (event.target.checked) ids.set(item.id, { dead: item.dead != null, fence: event.target.closest("tr").dataset.fence });
      else ids.delete(item.id);
      draw();
    } }),
    // all chooses all items of a page.
    all: (body) => h("input", { type: "checkbox", "aria-label": "Choose all on this page", onchange: (event) => {
      for (const box of body.querySelectorAll("input[type=checkbox]")) {
        if (box.checked !== event.target.checked) box.click();
      }
    } }),
    // refresh forgets items that are not shown any more.
    refresh(body) {
      const shown = new Set([...body.children].map((row) => row.dataset.key));
      for (const id of [...ids.keys()]) if (!shown.has(id)) ids.delete(id);
      draw();
    },
  };
}
