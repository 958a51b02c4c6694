// Cancelled items: who cancels, who works on them, and who waits for them.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, ConflictError, EmptyError, GiveUp, ItemCancelledError, LeaseLostError, NoResultYetError, NotFoundError, PQError, UnavailableError, UnknownResultError } from "pqbridge";
import { answer, client, connection, failure, fails, fake, fresh, lossy, nc, patience, pushed, queue, slow, until } from "./world.mjs";

/** So long that nothing but a notice explains an extension. */
const lease = "1h";

/** The subject of the notices to a holder. */
const noticesTo = (holder, q, prefix = "pq") => `${prefix}.${q.name}.event.lost-${createHash("sha256").update(holder).digest("hex").slice(0, 16)}`;

/** Settlements and extensions of leases of a queue, from now on to the end of the test. */
function settlements(t, q) {
  const seen = [];
  const sub = nc.subscribe(`pq.${q.name}.ack.>`, { callback: (_, m) => seen.push(m.string()) });
  t.after(() => sub.unsubscribe());
  return seen;
}

/** Why a signal has aborted. */
async function aborted(signal) {
  await until("the signal has aborted", () => signal.aborted);
  return signal.reason;
}

/** Ends the work of a test that has failed meanwhile: a lease that is held keeps the program. */
const ends = [];
after(() => Promise.allSettled(ends.map((end) => end())));

/**
 * A consumer whose handler works until the test says what it ends with: its item, its signal, the times at which its lease is
 * extended, what onError gets, and the end. notify says something to its holder.
 */
async function working(q, options = {}) {
  const { holder = fresh("wörker") } = options;
  const [extended, errors] = [[], []];
  let begin, finish;
  const begun = new Promise((resolve) => (begin = resolve));
  const work = new Promise((resolve, reject) => (finish = (end) => end().then(resolve, reject)));
  const consumer = q.consume((item, signal) => {
    const { extend } = item;
    item.extend = (...given) => {
      extended.push(performance.now());
      return extend.apply(item, given);
    };
    begin({ item, signal });
    return work;
  }, { lease, limit: 1, holder, onError: (err) => errors.push(err), ...options });
  const end = async (how = async () => {}) => {
    finish(how);
    await consumer.closed;
    return errors;
  };
  ends.push(end);
  const notify = (said) => nc.publish(noticesTo(holder, q), typeof said === "string" ? said : JSON.stringify({ queue: q.name, cause: "cancelled", reason: "made up", ...said }));
  return { ...(await begun), extended, errors, end, notify, holder };
}

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

test("a handler hears at once that its item is cancelled, and what it returns is dropped", async (t) => {
  for (const [resultTtl, reason, text] of [["1h", "enough", "cancelled: enough"], [undefined, "enough", "cancelled: enough"], ["1h", undefined, "cancelled"]]) {
    const q = queue();
    const { id } = await q.push("x", { resultTtl });
    const { signal, end } = await working(q);
    const [sent, lost] = [settlements(t, q), aborted(signal)];
    await q.cancel(id, { reason });
    const err = await lost;
    assert.ok(err instanceof ItemCancelledError && err instanceof PQError);
    assert.deepEqual([err.name, err.message, err.text, err.why, err.code, err.reason, err.queue], ["ItemCancelledError", text, text, reason ?? "", 410, "cancelled", q.name]);
    assert.deepEqual(await end(async () => "done"), [err]);
    await nc.flush();
    assert.deepEqual(sent, ["+WPI"]); // and no acknowledgement
    if (resultTtl) assert.equal((await q.result(id)).outcome, "cancelled");
  }
});

test("what a handler throws after a cancel settles nothing, and an AbortError says why", async (t) => {
  for (const [ends, told] of [
    [(signal) => sleep(3600e3, undefined, { signal }), "cancelled: enough"],
    [() => Promise.reject(new DOMException("This operation was aborted", "AbortError")), "cancelled: enough"],
    [(signal) => Promise.reject(signal.reason), "cancelled: enough"],
    [() => Promise.reject(new GiveUp("no wood")), "no wood"],
  ]) {
    const q = queue();
    const { id } = await q.push("x", { resultTtl: "1h" });
    const { signal, end } = await working(q);
    const [sent, lost] = [settlements(t, q), aborted(signal)];
    await q.cancel(id, { reason: "enough" });
    await lost;
    assert.deepEqual((await end(() => ends(signal))).map((err) => err.message), [told]);
    await nc.flush();
    assert.deepEqual(sent, ["+WPI"]);
  }
});

test("the console says that an item was cancelled", async (t) => {
  const { mock } = t.mock.method(console, "error", () => {});
  const q = queue();
  const { id } = await q.push("x");
  const { signal, end } = await working(q, { onError: undefined });
  const lost = aborted(signal);
  await q.cancel(id, { reason: "enough" });
  await lost;
  await end();
  assert.deepEqual(mock.calls.map((call) => call.arguments), [[`pqbridge: item ${id} of ${q.name}:`, "cancelled: enough"]]);
});

test("a handler hears at once that its item was removed, revoked or purged", async () => {
  for (const [end, text, reason] of [
    [(q, id) => q.remove(id), "lease lost: removed", "gone"],
    [(q, id) => q.revoke(id, { reason: "it hangs" }), "lease lost: revoked: it hangs", "taken"],
    [(q) => q.purge(), "lease lost: gone", "gone"],
    [(q) => q.delete(), "lease lost: gone", "gone"],
  ]) {
    const q = queue();
    const { id } = await q.push("x");
    const { signal, end: finish } = await working(q);
    const lost = aborted(signal);
    await end(q, id);
    const err = await lost;
    assert.deepEqual([err.name, err.text, err.code, err.reason], ["LeaseLostError", text, 410, reason]);
    assert.deepEqual(await finish(() => Promise.reject(err)), [err]);
  }
});

test("a consumer without a holder of its own hears by its name, in whatever queue and with however many handlers", async () => {
  const q = queue();
  const items = await q.pushMany(["a", "b", "c"].map((payload) => ({ payload })));
  const [lost, errors] = [[], []];
  let begun = 0;
  const consumer = q.consume(async (item, signal) => {
    begun++;
    lost.push([item.id, (await aborted(signal)).message]);
  }, { lease, limit: 3, concurrency: 3, onError: (err, item) => errors.push([item.id, err.message]) });
  await until("all have begun", () => begun === 3);
  for (const [i, { id }] of items.entries()) await q.cancel(id, { reason: `${i}` });
  await consumer.closed;
  const expected = items.map(({ id }, i) => [id, `cancelled: ${i}`]).sort();
  assert.deepEqual([lost.sort(), errors.sort()], [expected, expected]);
});

test("a forged notice extends the lease, and the work goes on", async () => {
  const q = queue();
  const { id } = await q.push("x", { resultTtl: "1h" });
  const { item, signal, extended, end, notify } = await working(q);
  const before = item.leaseExpires;
  notify({ id, fence: 1 });
  await until("the lease is extended", () => item.leaseExpires > before);
  assert.deepEqual([extended.length, signal.aborted], [1, false]);
  assert.deepEqual(await end(async () => "done"), []);
  assert.equal((await q.result(id)).string(), "done");
});

test("notices about other leases, and nonsense, do nothing", async () => {
  const q = queue();
  const [{ id }, { id: last }] = await q.pushMany([{ payload: "x" }, { payload: "y" }]);
  const { extended, end, notify, holder } = await working(q);
  const other = await working(q, { holder });
  const lease = { id, fence: 1 };
  for (const said of [{ id, fence: 2 }, { id, fence: 0 }, { id }, { id: `${id}0`, fence: 1 }, { fence: 1 }, { ...lease, cause: 5 }, { ...lease, cause: "" }, { ...lease, reason: {} }, { ...lease, reason: "x".repeat(20_000) }, "", "{", "null", "[]"]) notify(said);
  for (const subject of [noticesTo(`${holder}2`, q), noticesTo(holder, queue())]) nc.publish(subject, JSON.stringify({ ...lease, cause: "cancelled" }));
  notify({ id: last, fence: 1 }); // behind all of them
  await until("the other lease is extended", () => other.extended.length > 0);
  assert.deepEqual([extended.length, other.extended.length], [0, 1]);
  await Promise.all([end(), other.end()]);
});

test("notices extend a lease once a second at most", async () => {
  const q = queue();
  const { id } = await q.push("x");
  const { extended, end, notify } = await working(q);
  for (const times of [1, 2, 3]) {
    await until("the lease is extended", () => {
      for (let i = 0; i < 5; i++) notify({ id, fence: 1 });
      nc.publish(`pq.${q.name}.event.purged`, "{}");
      return extended.length >= times;
    });
  }
  for (const [i, at] of extended.entries()) if (i > 0) assert.ok(at - extended[i - 1] > 990, `${extended}`);
  await end();
});

/** The leases of a consumer that are extended, in order: a stand-in says something to their holder before it gives the items i and j. */
async function early(say) {
  const extended = [];
  const items = ["i", "j"];
  const world = await fake((verb, _n, m, prefix) => {
    if (verb.includes(".pop.")) {
      if (items.length === 2) say((id, fence) => world.bridge.publish(noticesTo("w1", { name: "jobs" }, prefix), JSON.stringify({ id, fence, cause: "cancelled", reason: "early" })));
      const id = items.shift();
      return answer({ "PQ-Id": id, "PQ-Fence": "7", "PQ-Ack": `${prefix}.jobs.ack.c.${id}` });
    }
    if (m.string() !== "+WPI") return answer({});
    extended.push(verb.split(".").at(-1));
    return failure(410, "gone");
  }, { askAgainAfter: patience, maxBundle: 1 });
  const errors = [];
  let last;
  await world.client.queue("jobs").consume(async (item, signal) => {
    if (item.id === "j") last = signal;
    await until("the last lease is lost", () => last?.aborted);
  }, { lease, limit: 2, concurrency: 2, holder: "w1", onError: (err) => errors.push(err.message) }).closed;
  assert.deepEqual(errors, extended.map(() => "cancelled: early"));
  return extended;
}

test("a notice that comes before its item is remembered, among the last 64", async () => {
  assert.deepEqual(await early((notify) => {
    notify("i", 7);
    for (let n = 0; n < 63; n++) notify("other", n);
    notify("j", 7);
  }), ["j"]);
  assert.deepEqual(await early((notify) => {
    notify("i", 7);
    for (let n = 0; n < 62; n++) notify("other", n);
    notify("j", 7);
  }), ["i", "j"]);
});

test("a consumer listens from its first pop to its end, whatever its holder is called", async (t) => {
  const { mock } = t.mock.method(nc, "subscribe");
  for (const holder of ["w", "ü".repeat(27), "x".repeat(55), "x".repeat(56), "ü".repeat(32), "x".repeat(119), "x".repeat(120), "ü".repeat(64)]) {
    const q = queue();
    const consumer = q.consume(() => {}, { stopWhenEmpty: true, holder, onError: () => {} });
    const listening = () => mock.calls.filter((call) => call.arguments[0].includes(".event.") && !call.result.isClosed()).map((call) => call.arguments[0]);
    assert.deepEqual(listening().sort(), [noticesTo(holder, q), `pq.${q.name}.event.purged`]);
    await consumer.closed;
    assert.deepEqual(listening(), []);
  }
});

test("a user who may not hear of events consumes as ever, and hears with the next extension", async () => {
  const q = queue();
  const own = await connection({ user: "worker", pass: "worker", inboxPrefix: "_INBOX.worker" });
  const denied = [];
  void (async () => {
    for await (const status of own.status()) if (status.type === "error") denied.push(status.error.message.replace(/.*? to "(.*)"$/, "$1"));
  })();
  const c = new Client(own, { timeout: patience });
  for (let i = 0; i < 2; i++) {
    const { id } = await q.push("x", { resultTtl: "1h" });
    const { signal, end } = await working(c.queue(q.name), { lease: 1200 * slow, holder: "w1" });
    await own.reconnect();
    const lost = aborted(signal);
    await q.cancel(id, { reason: "enough" });
    const err = await lost;
    assert.deepEqual([err.name, err.message, err.why], ["ItemCancelledError", "cancelled: enough", "enough"]);
    assert.deepEqual(await end(), [err]);
  }
  await own.flush();
  assert.deepEqual(denied.sort(), [noticesTo("w1", q), `pq.${q.name}.event.purged`]); // once, neither again on a new connection nor by another consumer
});

test("a caller who hangs up cancels the item", async () => {
  const q = queue();
  await q.configure({});
  const cut = new AbortController();
  const options = { wait: "1h", cancelOnHangUp: true, signal: cut.signal };
  const asked = q.pushAndWait("x", options);
  await until("it is there", async () => (await q.info()).ready === 1);
  const { item, signal, end } = await working(q);
  const [err, lost] = [fails(asked, ItemCancelledError, 410, "cancelled"), aborted(signal)];
  cut.abort(new Error("enough"));
  const { message, why, cause } = await err;
  assert.equal(message, `cancel ${q.name}: item ${item.id} is cancelled, because the wait for it has ended: enough (410)`);
  assert.deepEqual([why, cause], ["the caller has hung up: enough", cut.signal.reason]);
  assert.equal((await lost).message, "cancelled: the caller has hung up: enough");
  await end();
  const { outcome, reason } = await q.result(item.id);
  assert.deepEqual([outcome, reason], ["cancelled", "the caller has hung up: enough"]);
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

test("who hangs up before the push is answered cancels its item", async () => {
  const cut = new AbortController();
  const { client: c, requests } = await fake((verb) => {
    cut.abort(new Error("enough"));
    return verb === "jobs.push" ? pushed() : hungUp("cancelled", { finished_at: at });
  });
  const options = { wait: "1h", cancelOnHangUp: true, signal: cut.signal };
  const { why } = await fails(c.queue("jobs").pushAndWait("x", options), ItemCancelledError, 410, "cancelled");
  assert.equal(why, "the caller has hung up: enough");
  const verbs = requests.map(({ verb }) => verb).filter((verb) => verb !== "jobs.result.i");
  assert.deepEqual(verbs, ["jobs.push", "jobs.cancel.i"]);
  requests.length = 0;
  await assert.rejects(c.queue("jobs").pushAndWait("x", options), { message: "enough" });
  assert.deepEqual(requests, []);
});

test("a push without an answer cancels nothing", async () => {
  const { client: c, requests } = await fake(() => undefined, { timeout: 300 * slow, askAgainAfter: patience });
  const { signal } = new AbortController();
  await fails(c.queue("jobs").pushAndWait("x", { wait: "1h", cancelOnHangUp: true, signal }), UnknownResultError, 504);
  assert.ok(requests.every(({ verb }) => verb === "jobs.push"));
});
