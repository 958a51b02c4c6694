// Cancelled items: who cancels, who works on them, and who waits for them.
import { test } from "node:test";
import assert from "node:assert/strict";
import { ConflictError, EmptyError, ItemCancelledError, LeaseLostError, NoResultYetError, NotFoundError, UnavailableError, UnknownResultError } from "pqbridge";
import { answer, client, failure, fails, fake, lossy, patience, pushed, queue, slow, until } from "./world.mjs";

const lease = "1h";

test("an item is cancelled while it waits, and while it is leased", async () => {
  const q = queue();
  const [{ id: waits }, { id: leased }] = [await q.push("x", { priority: 2n ** 60n }), await q.push("y", { priority: 3 })];
  const item = await q.pop({ lease });
  await fails(q.cancel(leased, { spareLeased: true }), ConflictError, 409, "leased");
  await item.extend();
  assert.deepEqual(await q.cancel(waits, { spareLeased: true }), { outcome: "cancelled", finishedAt: undefined, priority: 2n ** 60n, deliveries: 0 });
  assert.deepEqual(await q.cancel(leased), { outcome: "cancelled", finishedAt: undefined, priority: 3, deliveries: 1 });
  await fails(q.pop(), EmptyError, 404, "empty");
  // Neither has asked for a result, so nobody knows of them any more.
  await fails(item.extend(), LeaseLostError, 410, "gone");
  for (const { id } of [{ id: waits }, { id: leased }, await queue().push("x")]) await fails(q.cancel(id), NotFoundError, 404, "unknown");
});

test("the result of an item says that it was cancelled, and why", async () => {
  const q = queue();
  for (const [reason, kept] of [["enough", "enough"], [undefined, ""], ["two\nlines", "two\\nlines"], ["ü".repeat(600), "ü".repeat(512)]]) {
    const { id } = await q.push("x", { resultTtl: "1h" });
    await q.cancel(id, { reason });
    const { outcome, reason: why, cause, body, deadLetter } = await q.result(id);
    assert.deepEqual([outcome, cause, body.length, deadLetter], ["cancelled", "", 0, ""]);
    assert.equal(why, kept);
  }
});

test("an item that has ended stays as it has ended", async () => {
  const q = queue();
  const ids = [];
  for (const end of [(item) => item.ack(), (item) => item.term("no"), (item) => q.cancel(item.id, { reason: "first" })]) {
    ids.push((await q.push("x", { resultTtl: "1h", priority: 4 })).id);
    await end(await q.pop({ lease }));
  }
  for (const [i, expected] of ["done", "dead", "cancelled"].entries()) {
    const { outcome, finishedAt, priority, deliveries } = await q.cancel(ids[i], { reason: "second" });
    assert.deepEqual([outcome, finishedAt, priority, deliveries], [expected, (await q.result(ids[i])).finishedAt, 4, 1]);
  }
  assert.equal((await q.result(ids[2])).reason, "first");
});

test("a cancel whose answer is lost is repeated", async () => {
  const { client: c, lost } = await lossy();
  const q = queue();
  const { id } = await q.push("x", { resultTtl: "1h" });
  assert.equal((await c.queue(q.name).cancel(id)).outcome, "cancelled");
  assert.deepEqual(lost, ["cancel"]);
});

test("what a cancel sends, and answers that cannot be read", async () => {
  const { client: c, requests } = await fake((_verb, n) => answer({}, n === 1 ? '{"id":"i","priority":-1,"outcome":"cancelled","deliveries":2}' : '{"id":"i","outcome":"cancelled","deliveries":2}'), { askAgainAfter: patience });
  const q = c.queue("jobs");
  assert.equal((await q.cancel("i", { reason: "enough", spareLeased: true })).priority, -1);
  await fails(q.cancel("i", { spareLeased: false }), UnknownResultError, 504);
  assert.deepEqual(requests.map(({ verb, body }) => [verb, body]), [["jobs.cancel.i", '{"reason":"enough","leased":false}'], ["jobs.cancel.i", "{}"]]);
  for (const act of [() => q.cancel("a.b"), () => q.cancel("i", { reason: 5 }), () => q.cancel("i", { spareLeased: 1 }), () => q.cancel("i", { why: "" }), () => q.pushAndWait("x", { wait: 1, cancelOnHangUp: 1 })]) {
    await assert.rejects(act(), TypeError);
  }
  assert.equal(requests.length, 2);
});

test("whoever settles a cancelled item by hand hears why", async () => {
  const q = queue();
  const { id } = await q.push("x", { resultTtl: "1h" });
  const item = await q.pop({ lease });
  await q.cancel(id, { reason: "wrong: cancelled: by hand" });
  for (const settle of [() => client.attach(item.ackSubject).extend(), () => item.ack({ result: "done" })]) {
    const err = await fails(settle(), ItemCancelledError, 410, "cancelled");
    assert.deepEqual([err.why, err.text, err instanceof LeaseLostError], ["wrong: cancelled: by hand", "lease lost: cancelled: wrong: cancelled: by hand", true]);
  }
  assert.equal((await q.result(id)).outcome, "cancelled");
});

test("a caller whose wait is over hangs up, and only who wants to", async () => {
  const q = queue();
  const { id } = await fails(q.pushAndWait("x", { wait: 10 }), NoResultYetError, 408);
  assert.equal((await q.get(id)).state, "ready");
  await q.remove(id);
  for (const [wait, why] of [[10, "10 ms"], ["20ms", "20ms"]]) {
    const err = await fails(q.pushAndWait("x", { wait, cancelOnHangUp: true }), ItemCancelledError, 410, "cancelled");
    assert.deepEqual([err.why, err.cause.name], [`the caller has hung up: no result after ${why}`, "NoResultYetError"]);
    await fails(q.pop(), EmptyError, 404, "empty");
  }
  const cut = new AbortController();
  const asked = q.pushAndWait("x", { wait: "1h", signal: cut.signal });
  await until("it is there", async () => (await q.info()).ready === 1);
  cut.abort(new Error("enough"));
  await assert.rejects(asked);
  assert.equal((await q.info()).ready, 1);
});

const hungUp = (outcome, rest = {}) => answer({}, JSON.stringify({ id: "i", priority: 0, deliveries: 1, outcome, ...rest }));
const at = "2030-01-02T03:04:05.006Z";

test("the result of an item that ended as its caller hung up counts", async () => {
  const { client: c, requests } = await fake((verb, n) => {
    if (verb === "jobs.push") return pushed();
    if (verb === "jobs.cancel.i") return hungUp("done", { finished_at: at });
    return n === 2 ? failure(408) : answer({ "PQ-Outcome": "done", "PQ-Finished-At": at, "PQ-Deliveries": "1" }, "12 boards");
  });
  const found = await c.queue("jobs").pushAndWait("x", { wait: 1, cancelOnHangUp: true });
  assert.equal(found.string(), "12 boards");
  assert.deepEqual(requests.map(({ verb }) => verb), ["jobs.push", "jobs.result.i", "jobs.cancel.i", "jobs.result.i"]);
});

test("a hang-up that is not heard says that the job may go on", async () => {
  for (const [respond, type, code, reason] of [
    [() => failure(503), NoResultYetError, 503],
    [() => undefined, NoResultYetError, 504],
    [() => hungUp("cancelled", { finished_at: at }), ItemCancelledError, 410, "cancelled"],
    [() => failure(404, "unknown"), NotFoundError, 404, "unknown"],
    [() => failure(409, "held"), ConflictError, 409, "held"],
  ]) {
    const cut = new AbortController();
    const { client: c } = await fake((verb) => {
      if (verb === "jobs.push") return pushed();
      if (verb === "jobs.cancel.i") return respond();
      cut.abort(new Error("enough"));
    }, { retryFor: 1, timeout: 300 * slow });
    const err = await fails(c.queue("jobs").pushAndWait("x", { wait: "1h", cancelOnHangUp: true, signal: cut.signal }), type, code, reason);
    if (type === NoResultYetError) assert.deepEqual([err.id, err.cause instanceof (code === 503 ? UnavailableError : UnknownResultError)], ["i", true]);
  }
});

test("who hangs up before the push is done cancels nothing", async () => {
  const cut = new AbortController();
  const { client: c, requests } = await fake(() => void cut.abort(new Error("enough")), { askAgainAfter: patience });
  await fails(c.queue("jobs").pushAndWait("x", { wait: "1h", cancelOnHangUp: true, signal: cut.signal }), UnknownResultError, 504);
  assert.deepEqual(requests.map(({ verb }) => verb), ["jobs.push"]);
});
