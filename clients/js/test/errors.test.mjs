// Errors: each code has its class, and texts say what was expected.
import { test } from "node:test";
import assert from "node:assert/strict";
import * as pq from "pqbridge";
import { answer, client, connection, fails, failure, fake, nc, patience, pushed, queue, until } from "./world.mjs";

test("every code and reason has a class, whatever was asked", async () => {
  for (const [code, reason, type, looking = type] of [
    [400, "", pq.BadRequestError],
    [403, "", pq.ForbiddenError],
    [404, "unknown", pq.NotFoundError, pq.EmptyError],
    [404, "empty", pq.NotFoundError, pq.EmptyError],
    [404, "band", pq.NotFoundError, pq.EmptyError],
    [408, "", pq.EmptyError],
    [409, "", pq.BusyError],
    [409, "occupied", pq.ConflictError],
    [409, "leased", pq.ConflictError],
    [409, "another_key", pq.ConflictError],
    [409, "lease_required", pq.ConflictError],
    [409, "only_min", pq.ConflictError],
    [410, "gone", pq.LeaseLostError],
    [410, "taken", pq.LeaseLostError],
    [410, "expired", pq.LeaseLostError],
    [413, "", pq.TooLargeError],
    [429, "busy", pq.BusyError],
    [429, "full", pq.BusyError],
    [429, "results", pq.BusyError],
    [429, "remembered", pq.BusyError],
    [429, "store_full", pq.BusyError],
    [500, "", pq.InternalError],
    [503, "", pq.UnavailableError],
    [504, "", pq.UnknownResultError],
    [506, "", pq.DamagedError],
    [599, "", pq.InternalError],
  ]) {
    const { client: c, prefix } = await fake(() => failure(code, reason, "what was expected"), { retryFor: 1, askAgainAfter: 60_000 });
    const q = c.queue("jobs");
    for (const [act, expected] of [
      [() => q.push("x"), type],
      [() => q.pop(), looking],
      [() => q.peekMany(3), looking],
      [() => q.info(), type],
      [() => c.attach(`${prefix}.jobs.ack.c.t`).ack(), type],
    ]) {
      const err = await fails(act(), expected, code, reason);
      assert.ok(err instanceof pq.PQError);
      assert.match(err.message, /what was expected/);
    }
  }
});

test("errors of pushes come in the body, too", async () => {
  const { client: c } = await fake(() => answer({}, '{"type":"io.pq.v1.push_response","error":{"code":403,"err_code":30403,"description":"no such queue"}}'));
  await fails(c.queue("jobs").push("x"), pq.ForbiddenError, 403);
});

test("answers that cannot be read leave the result unknown", async () => {
  for (const respond of [() => answer({}, "hello"), () => answer({}, "{}"), () => answer({}, ""), () => pushed({ id: "" }), () => pushed({ seq: "x" }), () => answer({}, "null")]) {
    const { client: c, requests } = await fake(respond, { askAgainAfter: patience });
    const err = await fails(c.queue("jobs").push("x"), pq.UnknownResultError, 504);
    assert.match(err.message, /cannot be read/);
    await fails(c.queue("jobs").pop(), pq.UnknownResultError, 504);
    await fails(c.queue("jobs").pushMany([{ payload: "x" }]), pq.UnknownResultError, 504);
    assert.equal(requests.length, 3);
  }
  const broken = [
    { "PQ-Id": "i", "PQ-Priority": "high" }, { "PQ-Id": "i", "PQ-Deliveries": "many" }, { "PQ-Id": "i", "PQ-Lease-Expires": "soon" },
    { "PQ-Id": "i", "PQ-Fence": "x" }, { "PQ-Bundle": "1" },
  ];
  for (const fields of broken) {
    const { client: c } = await fake(() => answer(fields, "12 x\nabc"));
    await fails(c.queue("jobs").pop(), pq.UnknownResultError, 504);
  }
});

test("a header that only informs costs no item", async () => {
  const { client: c } = await fake(() => answer({
    "PQ-Id": "i", "PQ-Schedule": "s", "PQ-Scheduled-At": "nonsense", "PQ-Num-Pending": "99999999999999999999", "PQ-Attempts": "[5", "PQ-Backoff": "soon",
  }, "x"));
  const item = await c.queue("jobs").pop();
  assert.deepEqual([item.id, item.string(), item.schedule, item.scheduledAt], ["i", "x", "s", undefined]);
});

test("bundles that cannot be read", async () => {
  const item = "PQ-Id: i\nPQ-Fence: 1\n";
  for (const body of ["x", "1", "0 5\nabc", "3 0\nabc", `${item.length} 1\n${item}ab`, "00 1\na", "-1 0\n", "99999999999999999 1\na", "2 0\n:\n\n"]) {
    const { client: c } = await fake(() => answer({ "PQ-Bundle": "1" }, body));
    await fails(c.queue("jobs").popMany(2), pq.UnknownResultError, 504);
  }
  const { client: c } = await fake(() => answer({ "PQ-Bundle": "2" }, `${item.length} 2\n${item}ab\n${item.length + 6} 0\n${item}A: b\r\n\n`));
  const [first, second] = await c.queue("jobs").popMany(2);
  assert.deepEqual([first.string(), second.string(), { ...second.headers }], ["ab", "", { A: ["b"] }]);
});

test("a header that looks like part of an object is a header", async () => {
  const q = queue();
  await q.push("x", { headers: { __proto__x: "1", constructor: "2" } });
  const { client: c } = await fake(() => answer({ "PQ-Id": "i", ["__proto__"]: "x", toString: "y" }));
  assert.deepEqual(Object.keys((await c.queue("jobs").pop()).headers).sort(), ["__proto__", "toString"]);
  assert.deepEqual({ ...(await q.pop()).headers }, { __proto__x: ["1"], constructor: ["2"] });
});

test("pqd's refusals say what was expected", async () => {
  const q = queue();
  const err = await fails(q.configure({ leese: "1m" }), pq.BadRequestError, 400);
  assert.match(err.text, /leese.*expected/);
  const item = await fails(q.pushMany([{ payload: "a" }, { payload: "b", headers: { "Nats-TTL": "1m" } }]), pq.BadRequestError, 400);
  assert.equal(item.item, 1);
  await q.configure({ max_length: 1 });
  await q.push("a", { unique: "u", key: "k" });
  const impatient = new pq.Client(nc, { retryFor: 1 }).queue(q.name);
  await fails(impatient.push("b"), pq.BusyError, 429, "full");
  await q.configure({ max_length: 0 });
  await fails(q.push("b", { unique: "u", key: "l", onConflict: "replace" }), pq.ConflictError, 409, "another_key");
  await q.pop({ lease: "1m" });
  await fails(q.push("b", { unique: "u", key: "k", onConflict: "replace" }), pq.ConflictError, 409, "leased");
  await q.delete();
  await fails(q.delete(), pq.NotFoundError, 404, "unknown");
});

test("what is too large is refused before it breaks the connection", async () => {
  const q = queue();
  const server = nc.info.max_payload;
  await fails(q.push(new Uint8Array(server + 1)), pq.TooLargeError, 413);
  await fails(q.push(new Uint8Array(server), { headers: { A: "b" } }), pq.TooLargeError, 413);
  await fails(q.push(new Uint8Array(server - 500)), pq.TooLargeError, 413); // which the bridge refuses
  await fails(q.pushMany([{ payload: new Uint8Array(server) }]), pq.TooLargeError, 413);
  await q.push("small");
});

test("wrong arguments are refused, and the text says what was expected", async () => {
  const q = queue();
  await q.push("x");
  const item = await q.pop({ lease: "1m" });
  for (const [act, text] of [
    [() => q.push("x", { priority: 1.5 }), /priority is 1.5: expected an integer/],
    [() => q.push("x", { priority: "1" }), /priority is "1": expected an integer/],
    [() => q.push("x", { priority: 2 ** 53 }), /expected an integer, as a bigint/],
    [() => q.push("x", { priority: 2n ** 63n }), /of 64 bits/],
    [() => q.push("x", { priorty: 1 }), /push has no option "priorty": expected priority, /],
    [() => q.push({ a: 1 }), /payload is an object: expected a string, a Uint8Array, or \{ json: a value \}/],
    [() => q.push({ json: 1, priority: 1 }), /payload is an object: expected a string/],
    [() => q.push({ json: undefined }), /the payload's json is undefined: expected a value that JSON has/],
    [() => q.push(undefined), /payload is undefined/],
    [() => q.push("x", { delay: "soon" }), /delay is "soon": expected milliseconds, or a text such as "30s"/],
    [() => q.push("x", { delay: -1 }), /delay is -1/],
    [() => q.push("x", { delay: "1s", notBefore: new Date() }), /delay together with notBefore/],
    [() => q.push("x", { notBefore: "tomorrow" }), /expected a Date/],
    [() => q.push("x", { notBefore: new Date(NaN) }), /expected a Date/],
    [() => q.push("x", { ttl: 0 }), /ttl is 0: expected .* more than 0/],
    [() => q.push("x", { ttl: Infinity }), /ttl is Infinity/],
    [() => q.push("x", { resultTtl: 0 }), /resultTtl is 0: expected .* more than 0 to 604800000 ms/],
    [() => q.push("x", { resultTtl: "168.1h" }), /resultTtl is "168.1h": expected/],
    [() => q.push("x", { key: " a" }), /key is " a": expected a text of 1 to 128 bytes/],
    [() => q.push("x", { key: "\u00a0a" }), /white space/],
    [() => q.push("x", { key: "a\tb" }), /without control characters/],
    [() => q.push("x", { key: "ä".repeat(65) }), /1 to 128 bytes/],
    [() => q.push("x", { unique: "\ud800" }), /unique/],
    [() => q.push("x", { msgId: "a\r\nPQ-Priority: 1" }), /without line breaks/],
    [() => q.push("x", { msgId: "" }), /msgId is ""/],
    [() => q.push("x", { msgId: "a", withoutMsgId: true }), /msgId together with withoutMsgId/],
    [() => q.push("x", { onConflict: "keep" }), /without unique/],
    [() => q.push("x", { unique: "a", onConflict: "drop" }), /onConflict is "drop": expected "keep" or "replace" or "raise"/],
    [() => q.push("x", { headers: { "PQ-Priority": "1" } }), /header PQ-Priority: expected the option/],
    [() => q.push("x", { headers: { "Nats-Msg-Id": "1" } }), /expected the option msgId/],
    [() => q.push("x", { headers: { "a b": "1" } }), /expected a name of printable ASCII/],
    [() => q.push("x", { headers: { A: "1\n2" } }), /header A is .*without line breaks/],
    [() => q.push("x", { headers: { A: 1 } }), /header A is 1: expected a text/],
    [() => q.push("x", { headers: "A: 1" }), /headers is "A: 1": expected an object/],
    [() => q.push("x", { timeout: 0 }), /timeout is 0/],
    [() => q.push("x", { signal: {} }), /expected an AbortSignal/],
    [() => q.pushMany("x"), /items are "x": expected an array/],
    [() => q.pushMany([{ payload: "x" }, { payload: 1 }]), /item 1: the payload is 1/],
    [() => q.pushMany([{ text: "x" }]), /item 0: an item has no option "text": expected payload/],
    [() => q.pushMany(Array(1001).fill({ payload: "x" })), /1001 items: expected at most 1000/],
    [() => q.pop({ end: "middle" }), /end is "middle": expected "min" or "max"/],
    [() => q.pop({ lease: "13h" }), /lease is "13h"/],
    [() => q.pop({ popId: "a", repeatable: true }), /popId together with repeatable/],
    [() => q.pop({ repeatable: 1 }), /repeatable is 1: expected true or false/],
    [() => q.pop({ maxBytes: 1 }), /pop has no option "maxBytes"/],
    [() => q.pop("min"), /options of pop are "min": expected an object/],
    [() => q.peek({ lease: 1 }), /peek has no option "lease"/],
    [() => q.popMany(0), /number of items is 0: expected an integer from 1 to 1000/],
    [() => q.popMany(1001), /expected an integer from 1 to 1000/],
    [() => q.get("a.b"), /id "a.b": expected/],
    [() => q.remove(""), /id "": expected/],
    [() => q.move("a", "1"), /priority is "1"/],
    [() => q.configure("x"), /change is "x": expected an object/],
    [() => q.list({ state: "dead" }).next(), /state is "dead"/],
    [() => q.list({ page: 0 }).next(), /page is 0/],
    [() => item.nak({ delay: "x" }), /delay is "x"/],
    [() => item.nak(5), /options of nak are 5/],
    [() => item.term(5), /reason is 5/],
    [() => item.ackNext({ wait: "2m" }), /wait is "2m"/],
    [() => item.handOver("mail", "x"), /queue is "mail": expected one of client.queue/],
    [async () => q.consume("x"), /handler is "x": expected a function/],
    [async () => q.consume(() => {}, { workers: 2 }), /consume has no option "workers": expected concurrency/],
    [async () => q.consume(() => {}, { concurrency: 0 }), /concurrency is 0/],
    [async () => q.consume(() => {}, { onError: 1 }), /onError is 1: expected a function/],
    [async () => client.queue("a.b"), /queue name "a.b": expected 1 to 64/],
    [async () => client.queue("_sys"), /queue name "_sys"/],
    [async () => client.queue("a".repeat(65)), /queue name/],
    [async () => client.attach("pq.jobs.push"), /expected one that settles a lease/],
    [async () => new pq.Client(), /connection is undefined: expected/],
    [async () => new pq.Client(nc, { prefix: "_pq" }), /prefix "_pq": expected/],
    [async () => new pq.Client(nc, { maxInFlight: 0 }), /maxInFlight is 0/],
    [async () => new pq.Client(nc, { timeuot: 1 }), /Client has no option "timeuot"/],
  ]) {
    await assert.rejects(act, (err) => err instanceof TypeError && text.test(err.message) && (err.message.match(/expected/g) ?? []).length >= 1, String(act));
  }
  await item.ack();
  assert.equal(client.queue(`${"a".repeat(64)}-dead`).name.length, 69);
  await fails(q.pop(), pq.EmptyError, 404, "empty");
});

test("durations in both forms", async () => {
  const { client: c, requests } = await fake(() => pushed(), { askAgainAfter: patience });
  const q = c.queue("jobs");
  for (const delay of [0, "0", 0.5, 1500, "1.5s", "1h30m", "250us", 315360000000]) await q.push("x", { delay });
  assert.deepEqual(requests.map((r) => r.headers.get("PQ-Delay")), ["0ms", "0ms", "500000ns", "1500ms", "1500ms", "5400000ms", "250000ns", "315360000000ms"]);
  const real = queue();
  for (const delay of [0.5, "1h30m", 315360000000]) await real.push("x", { delay });
});

// Without this the request would have no answer, and its result would be unknown.
test("what the NATS server does not permit", { skip: !process.env.PQ_TEST_FEW && "there is no user with few rights" }, async () => {
  const own = await connection({ user: process.env.PQ_TEST_FEW, pass: process.env.PQ_TEST_FEW });
  const q = new pq.Client(own).queue("jobs");
  await q.push("x");
  const err = await fails(q.info(), pq.ForbiddenError, 403);
  assert.match(err.message, /does not permit this user to publish to pq\.jobs\.info/);
  await fails(q.pop({ repeatable: true }), pq.ForbiddenError, 403);
  await assert.rejects(q.consume(() => {}).closed, pq.ForbiddenError);
});

/** What arrives on the subjects of a queue until the end of the test. */
function spied(t, q) {
  const seen = [];
  const sub = nc.subscribe(`pq.${q.name}.>`, { callback: (_, m) => seen.push(m.subject.slice(`pq.${q.name}.`.length)) });
  t.after(() => sub.unsubscribe());
  return seen;
}

// What is sent before would take an item along, or add one that the caller takes for refused.
test("no inbox right: nothing is sent, and the error names the prefix to set", async (t) => {
  const q = queue();
  await q.push("x");
  const seen = spied(t, q);
  const own = await connection({ user: "worker", pass: "worker" });
  const refused = new pq.Client(own).queue(q.name);
  for (const act of [() => refused.pop(), () => refused.pop({ wait: "1m" }), () => refused.pop({ lease: "1m", wait: "1m", repeatable: true }), () => refused.popMany(5), () => refused.push("y"), () => refused.pushMany([{ payload: "y" }])]) {
    const err = await fails(act(), pq.ForbiddenError, 403);
    assert.match(err.message, /does not permit this user to subscribe to _INBOX\.\w+\.\*.* expected an inboxPrefix.* "_INBOX\.<user>"/);
  }
  const both = await Promise.allSettled([refused.push("y"), refused.pop()]);
  assert.deepEqual(both.map((r) => r.reason?.code), [403, 403]);
  await fails(refused.consume(() => {}).closed, pq.ForbiddenError, 403);
  await fails(new pq.Client(own).cluster(), pq.ForbiddenError, 403);
  await own.flush();
  await nc.flush();
  assert.deepEqual(seen, []);
  const { ready, leased } = await q.info();
  assert.deepEqual([ready, leased], [1, 0]);
  const permitted = new pq.Client(own, { inboxPrefix: "_INBOX.worker" }).queue(q.name);
  assert.equal((await permitted.pop({ wait: "1m" })).string(), "x");
});

test("no inbox right any more: a reconnect sends nothing", async (t) => {
  const q = queue();
  await q.configure({});
  let user = "all";
  const own = await connection({ authenticator: () => ({ user, pass: user }) });
  const c = new pq.Client(own, { timeout: patience });
  const waits = c.queue(q.name).pop({ lease: "1m", wait: patience });
  await until("the pop waits", async () => (await q.info()).waiting === 1);
  const seen = spied(t, q);
  user = "worker";
  await own.reconnect();
  await until("the connection is gone", () => !c.mailbox.connected);
  const push = c.queue(q.name).push("y");
  // It was sent before, so its result is not known.
  const err = await fails(waits, pq.UnknownResultError, 504);
  assert.match(err.message, /subscribe to _INBOX.* expected an inboxPrefix/);
  await fails(push, pq.ForbiddenError, 403);
  await fails(c.queue(q.name).pop(), pq.ForbiddenError, 403);
  await own.flush();
  await nc.flush();
  assert.deepEqual(seen, []);
  assert.equal((await q.info()).ready, 0);
  user = "all";
  await own.reconnect();
  await c.queue(q.name).push("x");
  await nc.flush();
  assert.deepEqual(seen, ["info", "push"]);
});
