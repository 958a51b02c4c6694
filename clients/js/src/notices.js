// What a consumer hears of leases that somebody else has ended: a bridge says so after it has cancelled, removed or revoked an
// item, or purged a queue. The protocol calls these events bells; here a Bell wakes who waits.
//
// A notice proves nothing. It has the client extend the lease now, and not only when the time has come, and the answer to that
// tells whether the lease is lost. So a notice that is forged, late, doubled or lost changes when the client learns something,
// and not what.
import { isDenial } from "./errors.js";
import { readJSON } from "./json.js";
import { bytes } from "./message.js";
import { sha256 } from "./sha256.js";

/** How many are remembered, of leases whose items may not have arrived yet. */
const mostHeard = 64;

/** No bridge sends a longer one. */
const longest = 16 << 10;

/** What a notice says. @typedef {{cause: string, reason: string}} Notice */

/** @typedef {{hear: (notice?: Notice) => void}} Holder whoever extends a lease */

/** @param {{id: unknown, fence: unknown}} of */
const leaseOf = ({ id, fence }) => `${id} ${fence}`;

/**
 * The last token of the subject of notices to a holder: a token cannot have all characters of a name.
 * @param {string} holder
 */
const tokenOf = (holder) => `lost-${sha256(bytes(holder)).slice(0, 16)}`;

export class Notices {
  /** By lease. @type {Map<string, Holder>} */
  #holds = new Map();
  /** The last ones, by lease. @type {Map<string, Notice>} */
  #heard = new Map();
  /** @type {import("@nats-io/nats-core").Subscription[]} */
  #subscriptions = [];

  /** @param {import("./queue.js").Queue} queue */
  constructor(queue) {
    this.queue = queue;
  }

  /**
   * Begins to hear. A user who may not subscribe hears nothing, and everything else works.
   * @param {string | undefined} holder of the leases; without a name it hears of purges alone
   */
  listen(holder) {
    this.#subscribe("purged", () => this.#all());
    if (holder !== undefined) this.#subscribe(tokenOf(holder), (m) => this.#one(m.data));
  }

  /**
   * @param {string} event
   * @param {(m: import("@nats-io/nats-core").Msg) => void} hear
   */
  #subscribe(event, hear) {
    const { client } = this.queue;
    const subject = this.queue.subject(`event.${event}`);
    if (client.unheard.has(subject)) return; // each try has the server complain, and the program sees that in the status of its connection
    try {
      this.#subscriptions.push(client.connection.subscribe(subject, {
        // nats.js has dropped a subscription that is refused, and does not ask for it on the next connection.
        callback: (err, m) => {
          if (!err) hear(m);
          else if (isDenial(err)) client.mayNotHear(subject);
        },
      }));
    } catch {
      // The connection is closed, of which the pops of the consumer tell.
    }
  }

  /** It says what is lost. @param {Uint8Array} body */
  #one(body) {
    if (body.length > longest) return;
    let said;
    try {
      said = readJSON(body);
    } catch {
      return; // forged
    }
    const { cause, reason = "" } = said;
    if (typeof cause !== "string" || cause === "" || typeof reason !== "string") return;
    const [lease, notice] = [leaseOf(said), { cause, reason }];
    this.#heard.delete(lease);
    this.#heard.set(lease, notice);
    if (this.#heard.size > mostHeard) this.#heard.delete(/** @type {string} */ (this.#heard.keys().next().value));
    this.#holds.get(lease)?.hear(notice);
  }

  /** The items of the queue are gone. */
  #all() {
    for (const hold of this.#holds.values()) hold.hear();
  }

  /**
   * Has a holder hear what is about its lease, until leave is called. That may have been said before.
   * @param {{id: string, fence: number | bigint}} item
   * @param {Holder} hold
   * @returns {() => void} leave
   */
  enter(item, hold) {
    const lease = leaseOf(item);
    this.#holds.set(lease, hold);
    const before = this.#heard.get(lease);
    if (before) hold.hear(before);
    return () => {
      if (this.#holds.get(lease) === hold) this.#holds.delete(lease);
    };
  }

  /** Hears nothing any more. */
  close() {
    for (const subscription of this.#subscriptions.splice(0)) subscription.unsubscribe();
  }
}
