// The pqd that keep one store together, as each of them says.
import { Bell, now } from "./bell.js";
import { ended, notSentFor } from "./call.js";
import { denial, refusalIn, unreadable } from "./errors.js";
import { exact, readJSON } from "./json.js";
import { callOptions, checked } from "./options.js";

/** How long to wait for further answers behind each one, in milliseconds. */
const more = 250;

/**
 * Asks all of them, and waits a moment for the answers of those that are named.
 * @param {import("./client.js").Client} client
 * @param {import("../index.js").CallOptions} [given]
 * @returns {Promise<import("../index.js").Cluster>}
 */
export async function cluster(client, given) {
  const deadline = client.deadline(checked(given, "cluster", callOptions));
  const request = { op: "cluster", queue: "", subject: client.grammar.system("cluster.status"), body: new Uint8Array(0), sent: 0 };
  const bell = new Bell();
  /** @type {import("./message.js").Message[]} */
  const here = [];
  /** @type {Error | undefined} */
  let broken;
  const fail = (/** @type {Error} */ cause) => {
    broken ??= cause;
    bell.ring();
  };
  const { reply, stop } = client.mailbox.receive({
    subject: request.subject,
    deliver: (m) => {
      here.push(m);
      bell.ring();
    },
    reconnect: () => fail(new Error("the connection to NATS broke")),
    fail,
    deny: (cause) => fail(denial(request, cause)),
  });
  try {
    try {
      if (await client.mailbox.send(request, reply, deadline)) request.sent++;
    } catch (err) {
      throw notSentFor(request, undefined, err);
    }
    /** @type {import("../index.js").Cluster[]} */
    const all = [];
    for (let until = Infinity; ; until = now() + more) {
      while (here.length === 0 && !broken && !deadline.over && now() < until) await bell.wait(Math.min(until - now(), deadline.left), deadline.signal);
      const m = here.shift();
      if (!m && all.length > 0) return merged(all);
      if (!m) throw broken && "code" in broken ? broken : ended(request, undefined, broken ?? deadline.cause);
      const refused = refusalIn(m, "cluster", "");
      if (refused) throw refused;
      all.push(read(m.data));
      if (complete(all)) return merged(all);
    }
  } finally {
    stop();
  }
}

/**
 * @param {Uint8Array} body
 * @returns {import("../index.js").Cluster}
 */
function read(body) {
  try {
    const answer = readJSON(body);
    const { first, last, bytes, max_bytes } = answer.log;
    return {
      ...answer,
      members: answer.members.map((/** @type {any} */ m) => ({ reason: "", version: "", ...m, epoch: exact(m.epoch), entry: exact(m.entry), synced: exact(m.synced), lag: exact(m.lag) })),
      log: { first: exact(first), last: exact(last), bytes: exact(bytes), max_bytes: exact(max_bytes) },
    };
  } catch (cause) {
    throw unreadable("cluster", "", body, cause);
  }
}

/**
 * Whether every member that an answer names has answered.
 * @param {import("../index.js").Cluster[]} all
 */
const complete = (all) => all.every((c) => c.members.every((m) => m.role === "silent" || all.some((o) => o.node === m.node)));

/**
 * What all answers say together. What each says of itself counts more than what others have heard.
 * @param {import("../index.js").Cluster[]} all
 * @returns {import("../index.js").Cluster}
 */
function merged(all) {
  const own = all.flatMap((c) => c.members.slice(0, 1));
  const heard = all.flatMap((c) => c.members.slice(1)).sort((a, b) => a.heard - b.heard);
  const members = [...own];
  for (const m of heard) if (!members.some((o) => o.node === m.node)) members.push(m);
  const whole = all.find((c) => c.members[0]?.role === "active") ?? all.reduce((a, b) => (b.log.last > a.log.last ? b : a));
  const newest = members.reduce((most, m) => (m.entry > most ? m.entry : most), whole.log.last);
  return {
    ...whole,
    members: members
      .map((m) => ({ ...m, lag: exact(String(BigInt(newest) - BigInt(m.entry))) }))
      .sort((a, b) => Number(b.role === "active") - Number(a.role === "active") || (a.node < b.node ? -1 : 1)),
  };
}
