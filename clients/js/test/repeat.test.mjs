// What the client does when answers are lost, connections break and bridges refuse.
import { test } from "node:test";
import assert from "node:assert/strict";
import { BusyError, Client, DamagedError, EmptyError, ForbiddenError, LeaseLostError, UnavailableError, UnknownResultError } from "pqbridge";
import { answer, client, connection, fails, failure, fake, fresh, lossy, nc, patience, pushed, queue, slow, until } from "./world.mjs";

test("lost answers add no second item and take no second one", async () => {
  const { client: c, lost } = await lossy();
  const q = queue(c);
  const first = await q.push("a");
  assert.equal(first.duplicate, false);
  const many = await q.pushMany([{ payload: "b" }, { payload: "c" }]);
  assert.deepEqual(many.map((p) => p.duplicate), [false, false]);
  assert.equal((await q.info()).ready, 3);
  const item = await q.pop({ repeatable: true, lease: "1m" });
  assert.equal(item.id, first.id);
  await item.ack(); // whose first attempt took effect
  assert.deepEqual((await q.popMany(5)).map((i) => i.string()), ["b", "c"]);
  await fails(q.pop(), EmptyError, 404, "empty");
  assert.deepEqual(lost, ["push", "info", "pop", "ack"]);
});

test("a lost bundle of pushes is added once", async () => {
  const { client: c, lost } = await lossy();
  const q = queue(c);
  const all = await q.pushMany([{ payload: "a" }, { payload: "b", msgId: "b" }]);
  assert.deepEqual(all.map((p) => p.duplicate), [false, false]);
  assert.deepEqual(lost, ["push"]);
  assert.equal((await q.info()).ready, 2);
});

test("a lost +NXT settles once and gives the item that it popped", async () => {
  const { client: c, lost } = await lossy();
  const direct = queue();
  for (const text of ["a", "b", "c"]) await direct.push(text);
  const item = await direct.pop({ lease: "1m" });
  const next = await c.attach(item.ackSubject).ackNext();
  assert.equal(next.string(), "b");
  assert.deepEqual(lost, ["ack"]);
  const { ready, leased } = await direct.info();
  assert.deepEqual([ready, leased], [1, 1]);
  await next.ack();
});

test("a lost +NXT that found nothing has settled all the same", async () => {
  const { client: c } = await lossy();
  const direct = queue();
  await direct.push("a");
  const item = await direct.pop({ lease: "1m" });
  assert.equal(await c.attach(item.ackSubject).ackNext(), null);
  assert.equal((await direct.info()).leased, 0);
});

test("a lost hand-over happens once", async () => {
  const { client: c } = await lossy();
  const [from, to] = [queue(), queue()];
  await from.configure({ hand_over: "*" });
  await from.push("a");
  const item = await from.pop({ lease: "1m" });
  const done = await c.attach(item.ackSubject).handOver(c.queue(to.name), "b");
  assert.equal(done.duplicate, false);
  assert.equal((await to.info()).ready, 1);
  assert.equal((await from.info()).leased, 0);
});

test("a requeue is not repeated", async () => {
  const { client: c, requests } = await fake(() => undefined, { askAgainAfter: 50, timeout: 500 });
  await fails(c.queue("jobs").requeue("i"), UnknownResultError, 504);
  assert.deepEqual(requests.map((r) => r.verb), ["jobs-dead.requeue.i"]);
});

test("every repetition has the id of the first attempt, and every push its own", async () => {
  const attempts = new Map();
  const { client: c, requests } = await fake((_verb, _n, m) => {
    const id = m.headers.get("Nats-Msg-Id");
    attempts.set(id, (attempts.get(id) ?? 0) + 1);
    return attempts.get(id) === 3 ? pushed() : undefined;
  });
  const q = c.queue("jobs");
  await q.push("x");
  await q.push("x");
  assert.equal(attempts.size, 2);
  for (const [id, times] of attempts) assert.ok(id.length > 20 && times >= 3, `${id} ${times}`);
  assert.equal(new Set(requests.map((r) => r.reply)).size, 2);
});

test("without an id nothing is repeated, and the result is unknown", async () => {
  const { client: c, requests } = await fake(() => undefined, { timeout: 500 });
  const q = c.queue("jobs");
  await fails(q.push("x", { withoutMsgId: true }), UnknownResultError, 504);
  await fails(q.pushMany([{ payload: "x", withoutMsgId: true }, { payload: "y", msgId: "y" }]), UnknownResultError, 504);
  await fails(q.pop(), UnknownResultError, 504);
  await fails(q.pop({ lease: "1m", wait: 100 }), UnknownResultError, 504);
  await fails(q.purge(), UnknownResultError, 504);
  await fails(q.remove("i"), UnknownResultError, 504);
  await fails(q.delete(), UnknownResultError, 504);
  await until("all requests are there", () => requests.length >= 7);
  assert.deepEqual(requests.map((r) => r.verb), ["jobs.push", "jobs.push", "jobs.pop.min", "jobs.pop.min", "jobs.admin.purge", "jobs.remove.i", "jobs.admin.delete"]);
});

test("a repeated settlement that finds its item gone has held", async () => {
  for (const [reason, settle, holds] of [
    ["gone", (i) => i.ack(), true],
    ["taken", (i) => i.ack(), false],
    ["gone", (i) => i.term("why"), true],
    ["taken", (i) => i.term("why"), false],
    ["gone", (i) => i.nak(), true],
    ["taken", (i) => i.nak({ delay: 1000 }), true],
    ["expired", (i) => i.extend(), false],
    ["gone", (i) => i.ackNext(), true],
    ["taken", (i) => i.ackNext(), false],
  ]) {
    for (const answered of [false, true]) {
      const { client: c, prefix } = await fake((_verb, n) => (n > 1 ? failure(410, reason) : answered ? failure(503) : undefined), { askAgainAfter: answered ? patience : 500 * slow });
      const item = c.attach(`${prefix}.jobs.ack.c.t`);
      if (holds && !answered) await settle(item);
      else await fails(settle(item), LeaseLostError, 410, reason);
    }
  }
});

test("refusals that did nothing are tried again", async () => {
  for (const code of [409, 429, 503]) {
    const { client: c } = await fake((verb, n) => {
      if (n % 3 !== 0) return failure(code);
      if (verb.endsWith("push")) return pushed();
      return verb.endsWith("pop.min") ? answer({ "PQ-Id": "i" }) : answer({}, "{}");
    });
    const q = c.queue("jobs");
    await q.push("x", { withoutMsgId: true });
    await q.pop();
    await q.pause();
    assert.equal(await q.purge(), NaN);
  }
});

test("refusals are tried again for as long as was said", async () => {
  const { client: c, requests } = await fake(() => failure(429, "full"), { retryFor: 1000 });
  const err = await fails(c.queue("jobs").push("x"), BusyError, 429, "full");
  assert.deepEqual([err.op, err.queue, err.text], ["push", "jobs", "no"]);
  assert.ok(requests.length > 1);
  const none = new Client(nc, { prefix: fresh("nobody"), retryFor: 50 });
  await fails(none.queue("jobs").push("x"), UnavailableError, 503);
  const never = new Client(nc, { prefix: fresh("nobody"), timeout: 200 });
  // Or unknown, if the time is up behind an attempt and before its refusal.
  await assert.rejects(never.queue("jobs").pop(), (err) => err instanceof UnavailableError || err instanceof UnknownResultError);
});

test("a refusal behind an attempt without an answer leaves the result unknown", async () => {
  for (const [what, code, act, open] of [
    ["push", 403, (q) => q.push("x"), true],
    ["push that is wrong", 400, (q) => q.push("x"), false],
    ["pop", 506, (q) => q.pop({ repeatable: true }), true],
    ["peek", 506, (q) => q.peek(), false],
    ["pause", 506, (q) => q.pause(), true],
    ["info", 506, (q) => q.info(), false],
  ]) {
    for (const answered of [false, true]) {
      const { client: c } = await fake((_verb, n) => (n > 1 ? failure(code) : answered ? failure(503) : undefined), { askAgainAfter: answered ? patience : 500 * slow });
      const type = open && !answered ? UnknownResultError : { 400: Object, 403: ForbiddenError, 506: DamagedError }[code];
      await assert.rejects(act(c.queue("jobs")), (err) => err instanceof type && err.code === (open && !answered ? 504 : code), `${what}, answered ${answered}`);
    }
  }
});

test("an attempt without an answer behind a refusal leaves the result unknown", async () => {
  const all = [
    ["push", (q, timeout) => q.push("x", { timeout })],
    ["push without an id", (q, timeout) => q.push("x", { timeout, withoutMsgId: true })],
    ["pop", (q, timeout) => q.pop({ timeout })],
    ["pop with an id", (q, timeout) => q.pop({ timeout, repeatable: true })],
    ["waiting pop", (q, timeout) => q.pop({ timeout, wait: 100 })],
    ["purge", (q, timeout) => q.purge({ timeout })],
  ];
  await Promise.all(all.map(async ([what, act]) => {
    const { client: c } = await fake((_verb, n) => (n === 1 ? failure(503) : undefined));
    await assert.rejects(act(c.queue("jobs"), 4000), UnknownResultError, what);
  }));
});

test("pops that are sent again say so", async () => {
  const again = { repeatable: true };
  for (const [what, answers, act, want] of [
    ["no answer", [undefined, undefined, failure(404, "empty")], (q) => q.pop(again), [false, true, true]],
    ["unknown result", [failure(504), failure(404, "empty")], (q) => q.pop(again), [false, true]],
    ["refused", [failure(503), failure(404, "empty")], (q) => q.pop(again), [false, false]],
    ["no answer, then refused", [undefined, failure(503), failure(404, "empty")], (q) => q.pop(again), [false, true, true]],
    ["peek", [undefined, failure(404, "empty")], (q) => q.peek(), [false, false]],
    ["wait that goes on", [failure(504), failure(408), failure(404, "empty")], (q) => q.pop({ popId: "a", wait: "10h" }), [false, false, false]],
    ["wait", [failure(504), failure(408)], (q) => q.pop({ popId: "a", wait: "1m" }), [false, true]],
  ]) {
    const { client: c, requests } = await fake((_verb, n) => answers[Math.min(n, answers.length) - 1], { askAgainAfter: answers.includes(undefined) ? 500 * slow : patience });
    await assert.rejects(act(c.queue("jobs")), EmptyError, what);
    const bodies = requests.map((r) => (r.body ? JSON.parse(r.body) : {}));
    assert.deepEqual(bodies.slice(0, want.length).map((b) => b.repeat === true), want, what);
    for (const body of bodies) assert.ok(!body.repeat || body.msg_id, `${what}: a repetition without an id`);
    assert.ok(new Set(bodies.map((b) => b.msg_id)).size === 1, what);
  }
});

test("an empty answer to an earlier attempt says nothing", async () => {
  const held = [];
  const { client: c } = await fake((_verb, n, m) => {
    held.push(m);
    if (n === 2) {
      const late = failure(404, "empty");
      held[0].respond("", { headers: late.headers });
      return answer({ "PQ-Id": "i" }, "x");
    }
    return undefined;
  });
  assert.equal((await c.queue("jobs").pop({ repeatable: true })).string(), "x");
});

test("late answers are given back, and a lease that the caller has is not", async () => {
  const taken = [];
  const { client: c, requests, prefix } = await fake((verb, n, m, p) => {
    if (!verb.endsWith("pop.min")) return undefined;
    taken.push(m);
    if (n === 1) return undefined;
    const lease = (fence, token) => answer({ "PQ-Id": "i", "PQ-Fence": fence, "PQ-Ack": `${p}.jobs.ack.c.${token}` });
    for (const [fence, token] of [["1", "mine"], ["2", "other"]]) taken[0].respond("", { headers: lease(fence, token).headers });
    return lease("1", "mine-too");
  });
  const item = await c.queue("jobs").pop({ repeatable: true, lease: "1h" });
  assert.equal(item.id, "i");
  await until("the other lease is given back", () => requests.some((r) => r.verb === "jobs.ack.c.other" && r.body === "+BACK"));
  assert.deepEqual(requests.filter((r) => r.body === "+BACK").map((r) => r.verb), ["jobs.ack.c.other"]);
  assert.ok(prefix);
});

test("an item that two attempts answer is one item", async () => {
  const bundle = (p) => {
    const headers = `PQ-Id: i\nPQ-Fence: 1\nPQ-Ack: ${p}.jobs.ack.c.t\n`;
    return answer({ "PQ-Bundle": "1" }, `${headers.length} 1\n${headers}x\n`);
  };
  let first;
  const { client: c, requests } = await fake((verb, _n, m, p) => {
    if (!verb.endsWith("pop.min")) return undefined;
    if (!first) {
      first = m;
      return undefined;
    }
    first.respond(bundle(p).body, { headers: bundle(p).headers });
    return bundle(p);
  });
  const items = await c.queue("jobs").popMany(5, { repeatable: true, lease: "1h" });
  assert.deepEqual(items.map((i) => i.id), ["i"]);
  await c.connection.flush();
  assert.deepEqual(requests.filter((r) => r.body === "+BACK"), []);
});

test("a leased item whose pop has given up is given back", async () => {
  const { client: c, requests } = await fake((verb, n, m, p) => {
    if (!verb.endsWith("pop.min")) return undefined;
    setTimeout(() => m.respond("", { headers: answer({ "PQ-Id": "i", "PQ-Fence": "1", "PQ-Ack": `${p}.jobs.ack.c.t` }).headers }), 300);
    return undefined;
  });
  await fails(c.queue("jobs").pop({ lease: "1h", timeout: 100 }), UnknownResultError, 504);
  await until("the item is given back", () => requests.some((r) => r.verb === "jobs.ack.c.t" && r.body === "+BACK"));
});

test("requests are repeated on a new connection at once, if they may be", async () => {
  for (const [what, act, repeated] of [
    ["push", (q) => q.push("x"), true],
    ["push without an id", (q) => q.push("x", { withoutMsgId: true }), false],
    ["bundle", (q) => q.pushMany([{ payload: "x" }]), true],
    ["pop", (q) => q.pop({ repeatable: true }), true],
    ["waiting pop", (q) => q.pop({ repeatable: true, wait: "1m" }), true],
    ["pop without an id", (q) => q.pop(), false],
    ["waiting pop without an id", (q) => q.pop({ wait: "1m" }), false],
    ["waiting pop with a lease", (q) => q.pop({ wait: "1m", lease: "1m" }), true],
    ["peek", (q) => q.peek(), true],
    ["purge", (q) => q.purge(), false],
    ["pause", (q) => q.pause(), true],
  ]) {
    const { client: c, requests, nc: own } = await fake((verb, n, m) => {
      if (n === 1) return undefined;
      if (verb.endsWith("push")) return m.headers?.has("PQ-Bundle") ? answer({}, '{"items":[{"seq":1,"id":"i","priority":0}]}') : pushed();
      return verb.includes("admin") ? answer({}, "{}") : answer({ "PQ-Id": "i" });
    }, { askAgainAfter: patience });
    const done = act(c.queue("jobs")).then(() => "done", (err) => err.code);
    await until("the request was sent", () => requests.length === 1);
    await own.reconnect();
    if (repeated) assert.equal(await done, "done", what);
    await c.queue("clock").peek();
    assert.deepEqual(requests.filter((r) => r.verb.startsWith("jobs")).length, repeated ? 2 : 1, what);
  }
});

test("a pop that waits on several connections gets one item", async () => {
  const own = await connection();
  const c = new Client(own, { timeout: patience });
  const q = queue(c);
  const direct = client.queue(q.name);
  await direct.configure({});
  const pop = q.pop({ repeatable: true, wait: patience, lease: "1h" });
  for (let n = 1; n <= 3; n++) {
    await until(`${n} attempts wait`, async () => (await direct.info()).waiting >= n);
    await own.reconnect();
  }
  await until("all attempts wait", async () => (await direct.info()).waiting === 4);
  for (let i = 0; i < 5; i++) await direct.push("x");
  const item = await pop;
  await until("no attempt waits", async () => (await direct.info()).waiting === 0);
  await item.ack();
  const { ready, leased } = await direct.info();
  assert.deepEqual([ready, leased], [4, 0]);
});

test("requests wait while there is no connection, and a closed one is an error", async () => {
  const own = await connection({ reconnectTimeWait: 3000 }); // much longer than a push waits
  const c = new Client(own, { timeout: patience });
  const q = queue(c);
  await q.push("a");
  await own.reconnect();
  await until("the connection is gone", () => c.mailbox.connected === false);
  const first = q.push("b");
  const second = q.push("c", { withoutMsgId: true }); // which nats.js would drop
  const pop = q.pop(); // as well
  await fails(q.push("d", { timeout: 20 }), UnavailableError, 503);
  await first;
  await second;
  await pop;
  assert.equal((await q.info()).ready, 2);
  const other = queue();
  await other.configure({});
  const waiting = c.queue(other.name).pop({ wait: "1m" }).then(() => "popped", (err) => err.code);
  await until("the pop waits", async () => (await other.info()).waiting === 1);
  await own.close();
  assert.equal(await waiting, 504);
  await fails(q.push("x"), UnavailableError, 503);
  await fails(q.pop(), UnavailableError, 503);
});

test("a connection that is being closed sends nothing more", async () => {
  const own = await connection();
  const q = queue(new Client(own, { timeout: patience }));
  const drained = own.drain();
  await fails(q.push("x"), UnavailableError, 503);
  await drained;
  await fails(q.push("x"), UnavailableError, 503);
});

test("pushes beyond the limit wait for the answers of others", async () => {
  const held = [];
  const { client: c, requests } = await fake((_verb, _n, m) => void held.push(m), { maxInFlight: 2, askAgainAfter: patience });
  const q = c.queue("jobs");
  const all = ["a", "b", "c", "d"].map((text) => q.push(text));
  await until("two are there", () => requests.length === 2);
  await assert.rejects(q.push("e", { timeout: 20 }), (e) => e instanceof UnavailableError && /no room for the push: maxInFlight/.test(e.message));
  assert.equal(requests.length, 2);
  for (let i = 0; i < 4; i++) {
    await until("another one is there", () => held.length > i);
    held[i].respond(pushed().body);
  }
  await Promise.all(all);
  assert.deepEqual(requests.map((r) => r.body), ["a", "b", "c", "d"]);
});
