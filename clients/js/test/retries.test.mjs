// Backoff, attempts, holders, and leases that are taken away.
import { test } from "node:test";
import assert from "node:assert/strict";
import { hostname } from "node:os";
import { BadRequestError, ConflictError, EmptyError, GiveUp, LeaseLostError, RetryAfter } from "pqbridge";
import { answer, client, fails, fake, lossy, queue } from "./world.mjs";

const hour = 3600_000;
const self = `${hostname()}-${process.pid}`;

/** In how many hours an item is ready again, rounded up; 0: it is. */
const away = ({ state, notBefore }) => (state === "delayed" ? Math.ceil((notBefore - Date.now()) / hour) : 0);

const told = (item) => item.lastAttempts.map((a) => [a.n, a.outcome, a.holder, a.reason]);

test("an item is given back for as long as the queue says, or as the caller says", async () => {
  const q = queue();
  await q.configure({ backoff: ["2h"] });
  for (const [options, hours, reason] of [
    [undefined, 2, ""],
    [{ delay: 0 }, 0, ""],
    [{ delay: "5h" }, 5, ""],
    [{ reason: "it is closed" }, 2, "it is closed"],
    [{ reason: "" }, 2, ""],
    [{ delay: 0, reason: "€".repeat(1000) }, 0, "€".repeat(66)],
    [{ delay: 0.5, reason: "a\nb" }, 0, "a b"],
  ]) {
    const { id } = await q.push("x");
    const item = await q.pop({ lease: "1m", holder: "wörker 1" });
    assert.equal(item.backoff, 2 * hour);
    assert.deepEqual([(await q.get(id)).holder, item.holder], ["wörker 1", ""]);
    await item.nak(options);
    const back = await q.get(id, { attempts: true });
    if (options?.delay !== 0.5) assert.equal(away(back), hours, JSON.stringify(options));
    assert.deepEqual([back.attempts, told(back)], [1, [[1, "nak", "wörker 1", reason]]]);
    assert.ok(back.lastAttempts[0].start <= back.lastAttempts[0].end);
    assert.deepEqual((await q.get(id)).lastAttempts, []);
    await q.remove(id);
  }
  assert.deepEqual((await q.config()).backoff, ["2h0m0s"]);
  await q.push("x");
  const item = await q.pop({ lease: "1m" });
  await assert.rejects(() => item.nak({ reason: 5 }), TypeError);
  await item.nak({ delay: 0 });
  for (const holder of ["", " a", "a\u0007", "é".repeat(65), 7]) await assert.rejects(() => q.pop({ holder }), TypeError);
});

test("a queue without backoff has none", async () => {
  const q = queue();
  await q.push("x");
  const item = await q.pop({ lease: "1m" });
  assert.deepEqual([item.backoff, item.attempts, item.schedule, item.scheduledAt], [0, 0, "", undefined]);
  await item.ack();
});

test("the next item has the same holder, or another", async () => {
  const q = queue();
  await q.pushMany(["a", "b", "c"].map((payload) => ({ payload })));
  const first = await q.pop({ lease: "1m", holder: "w1" });
  const second = await first.ackNext();
  assert.equal((await q.get(second.id)).holder, "w1");
  const third = await second.ackNext({ holder: "w2" });
  const held = [];
  for await (const { id, holder } of q.list({ state: "leased", holder: "w2" })) held.push([id, holder]);
  assert.deepEqual(held, [[third.id, "w2"]]);
  for await (const _ of q.list({ state: "leased", holder: "w1" })) assert.fail("w1 has an item");
  await fails((async () => { for await (const _ of q.list({ holder: "w1" })); })(), BadRequestError, 400);
});

test("revoke ends a lease, and only the one that is meant", async () => {
  const q = queue();
  const { id } = await q.push("x");
  const item = await q.pop({ lease: "1h", holder: "w1" });
  await fails(q.revoke(id, { fence: item.fence + 1 }), BadRequestError, 400);
  await q.revoke(id, { fence: item.fence, delay: "1h", reason: "it hangs" });
  await fails(item.ack(), LeaseLostError, 410, "taken");
  await fails(q.revoke(id), ConflictError, 409, "not_leased");
  const listed = [];
  for await (const one of q.list({ state: "delayed", attempts: true })) listed.push([one.attempts, told(one)]);
  assert.deepEqual(listed, [[1, [[1, "revoked", "w1", "it hangs"]]]]);
  for (const wrong of [{ fence: 0 }, { fence: "1" }, { delay: "soon" }, { reason: 1 }, { why: "x" }]) await assert.rejects(() => q.revoke(id, wrong), TypeError);
});

test("a revocation whose answer is lost is repeated if it names the lease", async () => {
  const q = queue();
  const { id } = await q.push("x");
  const { fence } = await q.pop({ lease: "1h" });
  const { client: c, lost } = await lossy();
  await c.queue(q.name).revoke(id, { fence });
  assert.deepEqual(lost, ["revoke"]);
  await q.pop({ lease: "1h" });
  const { client: other } = await lossy({ timeout: 500 });
  await assert.rejects(() => other.queue(q.name).revoke(id), (err) => err.code === 504);
  assert.equal((await q.get(id)).state, "ready"); // it was done once
});

test("a consumer leaves the delay to a queue with a backoff, unless it has one of its own", async () => {
  for (const [own, hours] of [[undefined, 2], [() => "10h", 10]]) {
    const q = queue();
    await q.configure({ backoff: ["2h"] });
    const { id } = await q.push("x");
    let held;
    await q.consume(async (item) => {
      held = (await q.get(item.id)).holder;
      throw new Error("it is closed");
    }, { limit: 1, backoff: own }).closed;
    assert.equal(held, self);
    const back = await q.get(id, { attempts: true });
    assert.deepEqual([away(back), told(back)], [hours, [[1, "nak", self, "it is closed"]]]);
  }
});

test("stop hands back: what it cut off is no failure, and what nobody has begun with no attempt", async () => {
  const q = queue();
  await q.configure({ backoff: ["1h"] });
  const { id } = await q.push("x");
  let begun;
  const works = new Promise((resolve) => (begun = resolve));
  const consumer = q.consume((_, signal) => {
    begun();
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("the end"))));
  }, { holder: "w1" });
  await works;
  await consumer.drain({ grace: 0 });
  const item = await q.get(id, { attempts: true });
  assert.deepEqual([item.state, told(item)], ["ready", [[1, "back", "w1", "stopped"]]]);

  const stop = new AbortController();
  const { acks } = q.client;
  const of = acks.of.bind(acks);
  acks.of = (...args) => {
    stop.abort(); // while the item arrives
    return of(...args);
  };
  await q.consume(() => assert.fail("the consumer has been stopped"), { signal: stop.signal }).closed;
  acks.of = of;
  const again = await q.get(id, { attempts: true });
  assert.deepEqual([again.state, again.attempts], ["ready", 1]);
  assert.equal((await q.pop({ lease: "1m" })).fence, 3); // it was leased
});

test("what a handler says counts although the consumer stops", async () => {
  for (const [thrown, state, outcome] of [[new RetryAfter("1h", new Error("busy")), "delayed", "nak"], [new GiveUp("it cannot be done"), undefined, "terminated"]]) {
    const q = queue();
    const { id } = await q.push("x");
    let begun;
    const works = new Promise((resolve) => (begun = resolve));
    const consumer = q.consume((_, signal) => {
      begun();
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(thrown)));
    });
    await works;
    await consumer.drain({ grace: 0 });
    const where = state ? q : client.queue(`${q.name}-dead`);
    const item = await where.get(state ? id : (await where.peek()).id, { attempts: true });
    assert.deepEqual([item.state, item.lastAttempts[0].outcome], [state ?? "ready", outcome]);
  }
});

test("an item says how its leases ended, and a delay grows with its failures alone", async () => {
  const counts = { "PQ-Deliveries": "9", "PQ-Failures": "2", "PQ-Interruptions": "3", "PQ-Returns": "3" };
  const { client: c, requests } = await fake((verb, _n, _m, p) => {
    if (verb.includes(".ack.")) return answer({});
    return answer({ ...counts, "PQ-Id": "i", "PQ-Ack": `${p}.jobs.ack.c.t`, "PQ-Origin": "calls", "PQ-Dead-Deliveries": "5", "PQ-Dead-Interruptions": "4" });
  });
  const q = c.queue("jobs");
  const item = await q.pop({ lease: "1m" });
  assert.deepEqual([item.deliveries, item.failures, item.interruptions, item.returns, item.dead.deliveries, item.dead.interruptions], [9, 2, 3, 3, 5, 4]);
  const asked = [];
  await q.consume(() => Promise.reject(new Error("no luck")), { limit: 1, backoff: (failures) => asked.push(failures) && 1000 }).closed;
  assert.deepEqual(asked, [3]);
  assert.match(requests.at(-1).body, /^-NAK \{"delay":1000000000,"reason":"no luck"\}$/);
});

test("a list says how leases ended, and since when they run", async () => {
  const since = "2026-11-26T10:00:00Z";
  const listed = { id: "i", priority: 0, state: "leased", deliveries: 6, failures: 1, interruptions: 2, returns: 2, pushed: since, since, size: 1, dead: { reason: "r", origin: "o", origin_id: "x", interruptions: 4 } };
  const { client: c } = await fake(() => answer({}, JSON.stringify({ items: [listed, { ...listed, failures: undefined, interruptions: undefined, returns: undefined, since: undefined }] })));
  const found = [];
  for await (const i of c.queue("jobs").list({ state: "leased" })) found.push([i.failures, i.interruptions, i.returns, i.since?.toISOString(), i.dead.interruptions]);
  assert.deepEqual(found, [[1, 2, 2, "2026-11-26T10:00:00.000Z", 4], [0, 0, 0, undefined, 4]]);
});

test("attempts say what handlers threw", async () => {
  const q = queue();
  for (const text of ["text", "later", "late", "nothing", "hopeless"]) await q.push(text);
  await q.consume((item) => {
    switch (item.string()) {
      case "text": throw "it is closed";
      case "later": throw new RetryAfter("1h", new Error("busy"));
      case "late": throw new RetryAfter("1h");
      case "nothing": throw undefined;
      default: throw new GiveUp("it cannot be done");
    }
  }, { limit: 5, holder: "w1", backoff: () => hour }).closed;
  const reasons = [];
  for await (const { lastAttempts } of q.list({ state: "delayed", attempts: true })) reasons.push(lastAttempts[0].reason);
  assert.deepEqual(reasons.sort(), ["", "again in 1h", "busy", "it is closed"]);
  const dead = client.queue(`${q.name}-dead`);
  const { id } = await dead.peek();
  assert.deepEqual(told(await dead.get(id, { attempts: true })), [[1, "terminated", "w1", "it cannot be done"]]);
});

test("a pop with a holder finds nothing like any other", async () => {
  await fails(queue().pop({ holder: "w1" }), EmptyError, 404, "unknown");
});
