// Leases: how they are settled, extended and handed over.
import { test } from "node:test";
import assert from "node:assert/strict";
import { BadRequestError, ConflictError, EmptyError, ForbiddenError, LeaseLostError, NotLeasedError, SettledError } from "pqbridge";
import { client, fails, fake, failure, fresh, answer, patience, queue, until } from "./world.mjs";

test("acknowledge", async () => {
  const q = queue();
  await q.push("x");
  const item = await q.pop({ lease: "1m" });
  assert.deepEqual([item.leased, item.deliveries, item.fence, item.settled], [true, 1, 1, false]);
  assert.match(item.ackSubject, /^pq\.[\w-]+\.ack\./);
  assert.ok(item.leaseExpires > new Date());
  await fails(q.pop(), EmptyError, 404, "leased");
  await item.ack();
  assert.equal(item.settled, true);
  await fails(item.ack(), SettledError);
  await fails(item.extend(), SettledError);
  await fails(client.attach(item.ackSubject).ack(), LeaseLostError, 410, "gone");
  await fails(q.pop(), EmptyError, 404, "empty");
});

test("give back, at once and later", async () => {
  const q = queue();
  await q.push("x", { priority: 3 });
  const first = await q.pop({ lease: "1m" });
  await first.nak();
  const second = await q.pop({ lease: "1m" });
  assert.deepEqual([second.deliveries, second.fence], [2, 2]);
  await fails(client.attach(first.ackSubject).ack(), LeaseLostError, 410, "taken");
  await second.nak({ delay: "1h" });
  assert.equal((await q.get(second.id)).state, "delayed");
  await q.push("y");
  await (await q.pop({ lease: "1m" })).nak({ delay: 5 });
  assert.equal((await q.pop({ lease: "1m", wait: patience })).string(), "y");
});

test("hand back", async () => {
  const q = queue();
  await q.push("x");
  await (await q.pop({ lease: "1m" })).giveBack();
  const item = await q.pop({ lease: "1m" });
  await item.giveBack("stopped");
  await fails(item.giveBack(), SettledError);
  const { lastAttempts } = await q.get(item.id, { attempts: true });
  assert.deepEqual(lastAttempts.map((a) => [a.outcome, a.reason]), [["back", "stopped"]]);
});

test("give up", async () => {
  const q = queue();
  await q.push("x");
  const item = await q.pop({ lease: "1m" });
  await item.term("no such customer" + " ".repeat(100_000) + "known");
  const dead = await client.queue(`${q.name}-dead`).pop();
  assert.deepEqual(dead.dead, { reason: "no such customer", origin: q.name, originId: item.id, at: dead.dead.at, deliveries: 1, interruptions: 0 });
  await q.push("y");
  await (await q.pop({ lease: "1m" })).term();
  assert.equal((await client.queue(`${q.name}-dead`).pop()).dead.reason, "terminated");
});

test("extend", async () => {
  const q = queue();
  await q.push("x");
  const item = await q.pop({ lease: "1m" });
  const before = item.leaseExpires;
  await until("the clock goes on", async () => {
    await item.extend();
    return item.leaseExpires > before;
  });
  await item.ack();
});

test("progress goes to the next holder", async () => {
  const q = queue();
  await q.configure({ max_bytes: 4000 });
  await q.push("x");
  const item = await q.pop({ lease: "1m" });
  assert.deepEqual([item.progress, item.progressAt], ["", undefined]);
  for (const text of ["1 of 9", '{"page": 3, "zu": "spät"}', "p".repeat(4096)]) {
    assert.equal(await item.report(text), true);
    const found = await q.get(item.id);
    assert.deepEqual([found.progress, found.progressAt instanceof Date], [text, true]);
  }
  assert.equal(await item.extend(), undefined);
  await item.nak();
  const again = await q.pop({ lease: "1m" });
  assert.equal(again.progress, "p".repeat(4096));
  const other = client.attach(again.ackSubject);
  assert.deepEqual(await Promise.all([again.report("4 of 9"), other.report("4 of 9"), again.extend()]), [true, true, undefined]);
  await q.configure({ max_bytes: 1 });
  assert.deepEqual(await Promise.all([again.report("x".repeat(1000)), other.report("y".repeat(1000))]), [false, false]);
  assert.equal(await again.report("z".repeat(4096)), false);
  assert.equal((await q.get(again.id)).progress, "4 of 9");
  await fails(again.report("two\nlines"), BadRequestError, 400);
  await assert.rejects(again.report(3), TypeError);
  await again.ack();
  await fails(again.report("late"), SettledError);
});

test("acknowledge and pop the next one", async () => {
  const q = queue();
  for (const priority of [1, 2, 3]) await q.push(`${priority}`, { priority });
  const first = await q.pop({ end: "max", lease: "1m" });
  const second = await first.ackNext();
  assert.deepEqual([second.string(), second.leased, first.settled], ["2", true, true]);
  const third = await second.ackNext({ lease: "10m", max: 1 });
  assert.ok(third.leaseExpires - Date.now() > 5 * 60_000);
  assert.equal(await third.ackNext({ wait: 10 }), null);
  const { ready, leased } = await q.info();
  assert.deepEqual([ready, leased], [0, 0]);
  await fails(client.attach(third.ackSubject).ackNext(), LeaseLostError, 410, "gone");
});

test("hand over", async () => {
  const [orders, mail] = [queue(), queue()];
  await orders.push("two pizzas");
  const order = await orders.pop({ lease: "1m" });
  await fails(order.handOver(mail, "on their way"), ForbiddenError, 403);
  assert.equal(order.settled, false);
  await orders.configure({ hand_over: mail.name });
  const { id } = await order.handOver(mail, "on their way", { priority: 3, msgId: "order-1" });
  assert.equal((await mail.pop()).id, id);
  const again = client.attach(order.ackSubject);
  assert.equal((await again.handOver(mail, "on their way", { priority: 3, msgId: "order-1" })).duplicate, true);
  await fails(client.attach(order.ackSubject).handOver(mail, "x"), LeaseLostError, 410, "gone");
  await fails(mail.pop(), EmptyError, 404, "empty");
});

test("items without a lease cannot be settled", async () => {
  const q = queue();
  await q.push("x");
  const item = await q.peek();
  for (const settle of [() => item.ack(), () => item.nak(), () => item.term(), () => item.extend(), () => item.ackNext(), () => item.handOver(q, "y")]) {
    await fails(settle(), NotLeasedError);
  }
  assert.throws(() => item.hold(), NotLeasedError);
});

test("a lease is held while work lasts", async () => {
  const q = queue();
  await q.push("x");
  const item = await q.pop({ lease: "3s" });
  const { signal, stop } = item.hold();
  // Nobody else gets it for more than twice its length.
  await fails(q.pop({ wait: "7s", lease: "1m" }), EmptyError, 408);
  assert.equal(signal.aborted, false);
  stop();
  assert.equal((await q.pop({ wait: patience, lease: "1m" })).deliveries, 2);
  await fails(item.ack(), LeaseLostError, 410, "taken");
});

test("work hears that its lease is lost", async () => {
  const q = queue();
  await q.push("x");
  const item = await q.pop({ lease: "3s" });
  const { signal } = item.hold();
  const lost = new Promise((resolve) => signal.addEventListener("abort", resolve));
  await q.remove(item.id);
  await lost;
  assert.ok(signal.reason instanceof LeaseLostError);
  assert.equal(signal.reason.reason, "gone");
});

test("work hears that its lease could not be extended in time", async () => {
  const { client } = await fake((verb, _n, _m, prefix) => (verb.endsWith("pop.min") ? answer({ "PQ-Id": "i", "PQ-Ack": `${prefix}.jobs.ack.c.t` }) : undefined));
  const item = await client.queue("jobs").pop({ lease: 200 });
  const { signal } = item.hold();
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  assert.ok(signal.reason instanceof LeaseLostError, `${signal.reason}`);
});

test("an outer signal ends the work", async () => {
  const q = queue();
  await q.push("x");
  const item = await q.pop({ lease: "1m" });
  const outer = new AbortController();
  const { signal } = item.hold({ signal: outer.signal });
  outer.abort("stop");
  assert.equal(signal.reason, "stop");
  assert.equal(item.hold({ signal: outer.signal }).signal.aborted, true);
  await item.ack();
});

// A forged item could otherwise use the client's rights.
test("settlements go to ack subjects of the queue alone", async () => {
  for (const ack of ["other.jobs.ack.c.t", "<p>.other.ack.c.t", "<p>.jobs.push.1.2", "<p>.jobs.ack.c", "<p>.jobs.ack.c.t.u", "<p>.jobs.ack.*.t", ""]) {
    const { client, requests } = await fake((_verb, _n, _m, prefix) => answer({ "PQ-Id": "i", "PQ-Ack": ack.replace("<p>", prefix) }));
    await assert.rejects(client.queue("jobs").pop({ lease: "1m" }), { code: 504 }, ack);
    assert.equal(requests.length, 1, ack);
    assert.throws(() => client.attach(ack), TypeError);
  }
});

test("a queue that limits its keys says what it needs", async () => {
  const q = queue();
  await q.configure({ key_limit: 1 });
  await q.push("x", { key: "a" });
  await fails(q.pop(), ConflictError, 409, "lease_required");
  await fails(q.pop({ lease: "1m", end: "max" }), ConflictError, 409, "only_min");
});

test("a pop falls back to a batch where a bundle does not do", async () => {
  const { client, requests } = await fake((_verb, n, _m, prefix) =>
    n === 1
      ? failure(413)
      : [answer({ "PQ-Id": "i", "PQ-Fence": "1", "PQ-Ack": `${prefix}.jobs.ack.c.t` }, "a"), answer({ "PQ-Id": "j", "PQ-Fence": "1", "PQ-Ack": `${prefix}.jobs.ack.c.u` }, "b"), answer({ Status: "204", Description: "EOB" })],
  );
  const items = await client.queue("jobs").popMany(5, { lease: "1m" });
  assert.deepEqual(items.map((i) => i.string()), ["a", "b"]);
  assert.deepEqual(requests.map((r) => JSON.parse(r.body)), [{ lease: 60e9, bundle: 5 }, { lease: 60e9, batch: 5 }]);
});

test("an item of another account", async () => {
  const { client, requests } = await fake((verb, n) => (n === 1 ? answer({ "PQ-Id": "i", "PQ-Ack": "acme.pq.jobs.ack.c.t" }) : answer({})), { bridgePrefix: "acme.pq" });
  const item = await client.queue("jobs").pop({ lease: "1m" });
  await item.ack();
  assert.equal(requests[1].verb, "jobs.ack.c.t");
  assert.ok(fresh());
});
