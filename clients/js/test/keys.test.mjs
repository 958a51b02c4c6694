// Keys, settlements of many leases, and clusters.
import { test } from "node:test";
import assert from "node:assert/strict";
import { BadRequestError, Client, LeaseLostError, NotFoundError, NotLeasedError, SettledError } from "pqbridge";
import { client, failure, fails, fresh, nc, patience, queue, slow } from "./world.mjs";

const all = async (sequence) => {
  const found = [];
  for await (const one of sequence) found.push(one);
  return found;
};

test("keys, one key and its settings", async () => {
  const q = queue();
  await q.configure({ fair: "priority", rate: "1000/1s", key_rate: "100/1h", lease: "1m" });
  assert.equal((await q.config()).key_rate, "100/1h0m0s");
  const names = ["a.b", "Ann & Söhne", "*", ">", "100%", "..", "ä".repeat(64)];
  await q.push("x", { key: "a.b", weight: 7 });
  await q.pushMany(names.slice(1).map((key) => ({ payload: "x", key, weight: 3 })));
  assert.deepEqual((await all(q.keys({ page: 2 }))).map((k) => [k.key, k.ready, k.weight]), [
    ["*", 1, 3], ["..", 1, 3], ["100%", 1, 3], [">", 1, 3], ["Ann & Söhne", 1, 3], ["a.b", 1, 7], ["ä".repeat(64), 1, 3],
  ]);
  assert.deepEqual((await all(q.keys({ after: "b" }))).map((k) => k.key), ["ä".repeat(64)]);
  assert.deepEqual((await all(q.list({ key: ".." }))).map((i) => i.key), [".."]);
  for (const name of names) {
    assert.deepEqual(await q.setKey(name, { limit: 1, rate: "", paused: true }), { limit: 1, rate: "", paused: true });
    const info = await q.key(name);
    assert.deepEqual([info.key, info.ready, info.more, info.leased, info.limit, info.rate, info.tokens, info.waitsFor, info.retry], [name, 1, false, 0, 1, "", undefined, "pause", ""]);
    assert.deepEqual(await q.setKey(name, { limit: null, rate: null, weight: 9, paused: null }), { weight: 9 });
  }
  const { tokens, limit, weight, rate, waitsFor } = await q.key("*");
  assert.deepEqual([tokens, limit, weight, rate, waitsFor], [100, 0, 9, "100/1h0m0s", ""]);
  assert.deepEqual(await q.key("nobody").then(({ ready, leased, settings }) => [ready, leased, settings]), [0, 0, {}]);
  await q.setKey("*", { rate: "1/1h" });
  await q.push("y", { key: "*" });
  for (const { key } of await q.popMany(10)) assert.ok(names.includes(key));
  const spent = await q.key("*");
  assert.deepEqual([spent.tokens, spent.waitsFor, spent.retry !== ""], [0, "key_rate", true]);
  await fails(queue().key("a"), NotFoundError, 404, "unknown");
  await fails(q.setKey("a", { limit: -1 }), BadRequestError, 400);
});

test("wrong keys and weights are refused before they are sent", async () => {
  const q = queue();
  for (const wrong of [
    () => q.key(), () => q.key(""), () => q.key(" a"), () => q.key("a\u0007"), () => q.key("a".repeat(129)), () => q.setKey("a"), () => q.setKey("a", { order: true }),
    () => q.push("x", { weight: 2 }), () => q.push("x", { key: "a", weight: 0 }), () => q.push("x", { key: "a", weight: 1001 }), () => q.push("x", { key: "a", weight: 1.5 }),
    () => all(q.keys({ page: 101 })), () => all(q.keys({ after: 1 })), () => q.ackMany("x"), () => q.ackMany([{}]),
  ]) {
    await assert.rejects(wrong, TypeError, `${wrong}`);
  }
  await fails(q.info(), NotFoundError, 404, "unknown");
});

test("many acknowledgements in one message", async () => {
  const q = queue();
  for (const length of [1000, 201]) await q.pushMany(Array.from({ length }, (_, i) => ({ payload: `${i}` })));
  const items = [...(await q.popMany(1000, { lease: "5m" })), ...(await q.popMany(201, { lease: "5m" }))];
  const taken = await client.attach(items[3].ackSubject);
  await taken.ack();
  await items[4].ack();
  const bare = await q.push("bare", { priority: -1 }).then(() => q.pop());
  const errors = await q.ackMany([...items, bare]);
  assert.equal(errors.length, 1202);
  assert.deepEqual(errors.flatMap((err, i) => (err ? [[i, err.name, err.reason ?? ""]] : [])), [[3, "LeaseLostError", "gone"], [4, "SettledError", ""], [1201, "NotLeasedError", ""]]);
  assert.ok(errors[3] instanceof LeaseLostError && errors[4] instanceof SettledError && errors[1201] instanceof NotLeasedError);
  assert.equal(items[0].settled, true);
  const { ready, leased } = await q.info();
  assert.deepEqual([ready, leased], [0, 0]);
  assert.deepEqual(await q.ackMany([]), []);
  await assert.rejects(() => queue().ackMany([items[0]]), TypeError);
});

/** A bridge's stand-in that answers bundles of settlements, and leases one item after another. */
function standIn(prefix, answers) {
  const seen = [];
  const settle = (m) => {
    seen.push([m.headers?.get("PQ-Bundle") ?? "", m.string()]);
    const reply = answers.shift();
    if (reply) m.respond(reply.body, reply.headers ? { headers: reply.headers } : {});
  };
  nc.subscribe(`${prefix}.*.ack.*.*`, { callback: (_, m) => settle(m) });
  return seen;
}

test("what an acknowledgement among others does when it is not clear", async () => {
  const prefix = fresh("stand");
  const of = new Client(nc, { prefix, timeout: patience, askAgainAfter: 500 * slow });
  const ack = (n) => `${prefix}.jobs.ack.c.${n}`;
  // Lost, then answered: gone is what the first attempt did. 503 goes alone. The rest is an error.
  const seen = standIn(prefix, [undefined, { body: "-ERR 410 gone lease lost: gone\n-ERR 503 - the store is away\n-ERR 410 taken lost\n+OK" }, failure(410, "gone")]);
  const items = [1, 2, 3, 4].map((n) => of.attach(ack(n)));
  const errors = await of.queue("jobs").ackMany(items);
  assert.deepEqual(errors.map((err) => err?.reason ?? null), [null, null, "taken", null]);
  const bundle = `${ack(1)} +ACK\n${ack(2)} +ACK\n${ack(3)} +ACK\n${ack(4)} +ACK\n`;
  assert.deepEqual(seen, [["4", bundle], ["4", bundle], ["", "+ACK"]]);
  // A bundle that is refused fails whole.
  const wrong = fresh("wrong");
  const refused = new Client(nc, { prefix: wrong, timeout: patience });
  const sent = standIn(wrong, [failure(400, "", "no settlement")]);
  assert.deepEqual((await refused.queue("jobs").ackMany([1, 2].map((n) => refused.attach(`${wrong}.jobs.ack.c.${n}`)))).map((err) => err?.code), [400, 400]);
  assert.deepEqual(sent.map(([n]) => n), ["2"]);
});

test("a cluster's members say how they are", async () => {
  await fails(client.cluster(), BadRequestError, 400);
  await fails(client.stepDown({ node: "b" }), BadRequestError, 400);
  await fails(client.replaceNode({ old: "a", new: "b" }), BadRequestError, 400);
  const prefix = fresh("nodes");
  const of = new Client(nc, { prefix, timeout: patience });
  const member = (node, role, entry, heard = 0) => ({ node, role, epoch: 7, entry, synced: entry, lag: 0, heard });
  for (const [node, role, entry] of [["b", "follower", 40], ["a", "active", 42]]) {
    const body = JSON.stringify({ node, store: "jetstream:pq", members: [member(node, role, entry), member(node === "a" ? "b" : "a", "follower", 1, 3), member("c", "silent", 12, node === "a" ? 20 : 30)], log: { first: 1, last: entry, bytes: 10, max_bytes: 100 } })
      .replace('"max_bytes":100', '"max_bytes":9223372036854775807');
    nc.subscribe(`${prefix}._sys.cluster.status`, { callback: (_, m) => m.respond(body) });
  }
  const { node, store, members, log } = await of.cluster();
  assert.deepEqual([node, store, log], ["a", "jetstream:pq", { first: 1, last: 42, bytes: 10, max_bytes: 9223372036854775807n }]);
  assert.deepEqual(members.map((m) => [m.node, m.role, m.entry, m.lag, m.heard]), [["a", "active", 42, 0, 0], ["b", "follower", 40, 2, 0], ["c", "silent", 12, 30, 20]]);
});
