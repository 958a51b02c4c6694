// The leased items of a key for which its next one waits.

import { h } from "./dom.js";
import { visible } from "./format.js";
import { get, path } from "./gateway.js";
import { holderLink, itemLink } from "./links.js";

const most = 3; // that are named

// blockers follows who holds up a key. Each call of look that finds it blocked asks again, and draw shows what came of it.
export function blockers(queue, draw) {
  let found = [];
  return {
    async look(waitsFor, key) {
      const blocked = waitsFor === "key_order" || waitsFor === "key_limit";
      if (!blocked) found = [];
      else try {
        const page = await get(path(["queues", queue, "items"], { state: "leased", limit: 1000 }));
        found = page.items.filter((i) => i.key === key);
        draw();
      } catch { /* it is not needed */ }
    },
    // links are what follows the sentence that says so.
    links: () => (found.length === 0 ? [] : [" Leased: ", found.slice(0, most).flatMap((i, n) => [n ? ", " : "", h("a", { class: "mono", "data-as": i.id, href: itemLink(queue, i.id) }, i.id),
      i.holder ? [" by ", h("a", { class: "text", "data-as": `${i.id} ${i.holder}`, href: holderLink(queue, i.holder) }, visible(i.holder))] : ""]), found.length > most ? ", and others." : "."]),
  };
}
