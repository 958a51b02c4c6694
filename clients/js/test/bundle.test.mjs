// Calls that are under way at the same time go in one message, and each is as if it had gone alone.
import assert from "node:assert/strict";
import test from "node:test";
import { BadRequestError, BusyError, Client, LeaseLostError, UnknownResultError } from "pqbridge";
import { answer, client, connection, failure, fails, fake, lossy, patience, pushed, queue, until } from "./world.mjs";

/** Once everything that can run has run. */
const idle = () => new Promise((resolve) => setImmediate(resolve));

/** The items of a bundle, as their payloads and headers. */
function frames(body) {
  const items = [];
  for (let rest = Buffer.from(body); rest.length > 0; ) {
    const line = rest.indexOf("\n");
    const [headers, payload] = rest.toString("utf8", 0, line).split(" ").map(Number);
    const at = line + 1 + headers;
    items.push({ headers: rest.toString("utf8", line + 1, at), payload: rest.toString("utf8", at, at + payload) });
    rest = rest.subarray(at + payload + 1);
  }
  return items;
}

const result = (payload, fields = {}) => ({ seq: 1, id: `id of ${payload}`, priority: 0, ...fields });

/** The answer to a push, or to a bundle of them, by what each payload gets. */
function each(m, of = result) {
  if (!m.headers?.has("PQ-Bundle")) return pushed(of(m.string()));
  return answer({}, JSON.stringify({ type: "io.pq.v1.push_response", stream: "q", seq: 1, items: frames(m.string()).map(({ payload }) => of(payload)) }));
}

const sizeOf = (request) => Number(request.headers?.get("PQ-Bundle") || 1);

/** Some pushes at the same time, each of which says its number. */
const some = (q, n, options = {}) => Array.from({ length: n }, (_, i) => q.push(`${i}`, options));

/** A stand-in that answers when it is told to. Nothing is repeated unless the options say so. */
async function held(options) {
  const waiting = [];
  const world = await fake((verb, n, m) => void waiting.push(m), { askAgainAfter: patience, ...options });
  await world.client.connection.flush();
  const q = world.client.queue("q");
  const first = q.push("first"); // until then nothing may be sent
  await until("the first push is there", () => waiting.length === 1);
  const reply = (of) => {
    for (const m of waiting.splice(0)) {
      const { body, headers } = each(m, of);
      world.bridge.publish(m.reply, body, { headers });
    }
  };
  reply();
  await first;
  await world.nc.flush(); // it may have been repeated meanwhile
  await world.bridge.flush();
  waiting.length = world.requests.length = 0;
  return { ...world, q, waiting, reply };
}

test("a lone call sends its own message at once", async () => {
  const { q, nc, requests, reply } = await held();
  const published = [];
  const publish = nc.publish.bind(nc);
  nc.publish = (...args) => {
    published.push(args);
    return publish(...args);
  };
  const push = q.push("x", { priority: 3, msgId: "a", headers: { Season: "autumn" } });
  assert.equal(published.length, 1, "it waits for others");
  await until("it is there", () => requests.length === 1);
  const [{ verb, headers, body }] = requests;
  assert.deepEqual([verb, body, String(headers)], ["q.push.3", "x", "NATS/1.0\r\nSeason: autumn\r\nNats-Msg-Id: a\r\n\r\n"]);
  reply();
  await push;
});

test("no call waits for an answer while few messages are under way", async () => {
  const { q, bridge, requests, reply } = await held();
  const pushes = [];
  for (let i = 0; i < 40; i++) {
    pushes.push(q.push(`${i}`));
    await idle();
  }
  await until("sixteen have left", () => requests.length === 16);
  await q.client.connection.flush();
  await bridge.flush();
  assert.deepEqual(requests.map(sizeOf), Array(16).fill(1));
  reply();
  await until("the others have left", () => requests.length === 17);
  assert.equal(sizeOf(requests[16]), 24);
  assert.deepEqual(frames(requests[16].body).map(({ payload }) => payload), Array.from({ length: 24 }, (_, i) => `${16 + i}`));
  reply();
  assert.deepEqual((await Promise.all(pushes)).map(({ id }) => id), pushes.map((_, i) => `id of ${i}`));
});

test("calls go together from the third on, up to maxBundle", async () => {
  for (const [maxBundle, want] of [[undefined, [1, 1, 18]], [8, [1, 1, 8, 8, 2]], [1, Array(20).fill(1)]]) {
    const { q, requests, reply } = await held({ maxBundle });
    const pushes = some(q, 20, { priority: 5 });
    await until("all are there", () => requests.reduce((sum, request) => sum + sizeOf(request), 0) === 20);
    assert.deepEqual(requests.map(sizeOf), want);
    for (const { verb, headers } of requests.filter((request) => sizeOf(request) > 1)) {
      assert.deepEqual([verb, headers.get("PQ-Each"), headers.get("Nats-Msg-Id")], ["q.push.5", "true", ""]);
    }
    reply();
    await Promise.all(pushes);
  }
  for (const maxBundle of [0, 1001, "many"]) assert.throws(() => new Client(client.connection, { maxBundle }), /maxBundle is .*expected/);
});

test("those whom one answer woke go together again", async () => {
  const { q, requests, waiting, reply } = await held();
  const pushes = some(q, 10).map((push, i) => (i < 2 ? push : push.then(() => q.push("again"))));
  await until("all are there", () => requests.length === 3);
  const together = waiting.pop();
  reply();
  await Promise.all(pushes.slice(0, 2));
  waiting.push(together);
  reply();
  await until("they are there again", () => requests.reduce((sum, request) => sum + sizeOf(request), 0) === 18);
  assert.deepEqual(requests.map(sizeOf), [1, 1, 8, 8]);
  reply();
  await Promise.all(pushes);
});

test("a message has a quarter of max_payload, and room for its answer", async () => {
  const { q, nc, requests, reply } = await held();
  Object.defineProperty(nc, "info", { value: { ...nc.info, max_payload: 8000 } }); // as after a reconnect
  const large = some(q, 2).concat(Array.from({ length: 6 }, () => q.push("x".repeat(800))));
  await until("the large ones are there", () => requests.length === 5);
  const small = some(q, 100, { withoutMsgId: true });
  await until("all are there", () => requests.reduce((sum, request) => sum + sizeOf(request), 0) === 108);
  assert.deepEqual(requests.map(sizeOf), [1, 1, 2, 2, 2, 1, 1, 50, 48]);
  reply();
  await Promise.all([...large, ...small]);
});

test("a large push goes alone, and in its order", async () => {
  const { q, requests, reply } = await held();
  const pushes = [...some(q, 4), q.push("x".repeat(20_000)), ...some(q, 3), q.push("traced", { headers: { "Nats-Trace-Dest": "t" } }), ...some(q, 2)];
  await until("all are there", () => requests.reduce((sum, request) => sum + sizeOf(request), 0) === pushes.length);
  assert.deepEqual(requests.map((request) => [sizeOf(request), request.body.length > 20_000 - 1 || request.body === "traced"]), [[1, false], [1, false], [2, false], [1, true], [3, false], [1, true], [2, false]]);
  reply();
  await Promise.all(pushes);
});

test("a bad item hurts only its caller", async () => {
  const bad = (payload) => (payload === "3" ? { error: { code: 400, err_code: 30400, description: "it is bad" } } : result(payload));
  const { q, reply, requests } = await held();
  const pushes = some(q, 6);
  await until("all are there", () => requests.length === 3);
  reply(bad);
  for (const [i, push] of pushes.entries()) {
    if (i === 3) assert.equal((await fails(push, BadRequestError, 400)).text, "it is bad");
    else assert.equal((await push).id, `id of ${i}`);
  }
  assert.equal(requests.length, 3);
});

test("what is too much for a bridge goes alone, with the same ids", async () => {
  const { client: own, requests } = await fake((verb, n, m) => (m.headers?.has("PQ-Bundle") ? failure(413, "", "too large") : each(m)), { askAgainAfter: patience });
  const q = own.queue("q");
  await q.push("first");
  requests.length = 0;
  assert.deepEqual((await Promise.all(some(q, 5))).map(({ id }) => id), ["id of 0", "id of 1", "id of 2", "id of 3", "id of 4"]);
  const [together] = requests.filter((request) => sizeOf(request) > 1);
  const ids = frames(together.body).map(({ headers }) => /Nats-Msg-Id: (.*)\n/.exec(headers)[1]);
  assert.deepEqual(requests.slice(3).map(({ headers }) => headers.get("Nats-Msg-Id")), ids);
  requests.length = 0;
  await Promise.all(some(q, 4));
  assert.deepEqual(requests.slice(0, 3).map(sizeOf), [1, 1, 2]);
});

test("a message that is refused is an error of each of its pushes", async () => {
  for (const item of [undefined, 2]) {
    const body = JSON.stringify({ type: "io.pq.v1.push_response", error: { code: 400, err_code: 30_400, description: "bad", item } });
    const { client: own, requests } = await fake((verb, n, m) => (m.headers?.has("PQ-Bundle") ? { ...failure(400, "", "bad"), body } : each(m)), { askAgainAfter: patience });
    const q = own.queue("q");
    await q.push("first");
    const bad = ["BadRequestError", "push", "bad"];
    for (const [sizes, want] of [[[1, 1, 4], ["id of 0", "id of 1", bad, bad, bad, bad]], [[6], Array(6).fill(bad)]]) { // those whom a bundle woke go together at once
      requests.length = 0;
      const results = await Promise.allSettled(some(q, 6));
      assert.deepEqual(results.map(({ value, reason }) => value?.id ?? [reason.name, reason.op, reason.text]), want);
      assert.deepEqual(requests.map(sizeOf), sizes);
    }
  }
});

test("a message that is refused is an error of each of its settlements, which keep their leases", async () => {
  let refusing = true;
  const { client: own, prefix, requests } = await fake((verb, n, m) => {
    const size = Number(m.headers?.get("PQ-Bundle"));
    return size && refusing ? failure(400, "", "bad") : answer({}, "+OK\n".repeat(size));
  }, { askAgainAfter: patience });
  const [first, ...items] = Array.from({ length: 6 }, (_, i) => own.attach(`${prefix}.jobs.ack.c.${i}`));
  await first.ack(); // until then nothing may be sent
  requests.length = 0;
  const results = await Promise.allSettled([items[0].ack(), items[1].ack(), items[2].ack(), items[3].nak(), items[4].extend()]);
  assert.deepEqual(results.map(({ reason: e }, i) => e && [e.name, e.op, e.queue, e.text, items[i].settled]), [undefined, undefined, ...["ack", "nak", "extend"].map((op) => ["BadRequestError", op, "jobs", "bad", false])]);
  assert.deepEqual(requests.map(sizeOf), [1, 1, 3]);
  for (const err of await own.queue("jobs").ackMany(items.slice(2))) await fails(Promise.reject(err), BadRequestError, 400);
  assert.deepEqual(requests.slice(3).map(sizeOf), [3]);
  refusing = false;
  assert.deepEqual(await own.queue("jobs").ackMany(items.slice(2)), [null, null, null]);
});

test("a reason of several lines has a message of its own", async () => {
  const q = queue();
  await q.pushMany(Array.from({ length: 8 }, (_, i) => ({ payload: `${i}` })));
  const items = await q.popMany(8, { lease: "1m" });
  const sent = [];
  const { connection: nc } = client;
  const publish = nc.publish;
  nc.publish = (subject, body, options) => {
    sent.push(Number(options?.headers?.get("PQ-Bundle") || 1));
    return publish.call(nc, subject, body, options);
  };
  try {
    await Promise.all(items.map((item, i) => (i === 4 ? item.term("two\nlines") : i === 6 ? item.giveBack("two\rlines") : item.ack())));
  } finally {
    nc.publish = publish;
  }
  assert.deepEqual(sent, [1, 1, 2, 1, 1, 1, 1]);
  const { ready, leased } = await q.info();
  assert.deepEqual([ready, leased], [1, 0]);
});

test("a full queue takes what fits", async () => {
  const own = new Client(await connection(), { timeout: patience, retryFor: 1, askAgainAfter: patience });
  const q = queue(own);
  await q.configure({ max_length: 3 });
  const results = await Promise.allSettled(some(q, 64));
  assert.deepEqual(results.map(({ status }) => status), [...Array(3).fill("fulfilled"), ...Array(61).fill("rejected")]);
  for (const { reason } of results.slice(3)) await fails(Promise.reject(reason), BusyError, 429, "full");
  await q.configure({ max_length: 0 });
  await q.push("x");
  assert.equal((await q.info()).ready, 4);
});

test("what was refused for long enough is not tried again", async () => {
  let refusing = false;
  const { client: own, requests } = await fake((verb, n, m) => (refusing ? failure(503, "") : each(m)), { retryFor: 1, askAgainAfter: patience });
  const q = own.queue("q");
  await q.push("first");
  refusing = true;
  const results = await Promise.allSettled(some(q, 6));
  assert.deepEqual(results.map(({ reason }) => reason?.code), Array(6).fill(503));
  assert.deepEqual(requests.slice(1).map(sizeOf).sort(), [1, 1, 1, 1, 4, 4]);
});

test("a call that ends before it left was not done", async () => {
  const q = queue();
  await q.push("first"); // until then nothing may be sent
  const stop = new AbortController();
  const pushes = some(q, 3);
  const cancelled = q.push("cancelled", { signal: stop.signal });
  stop.abort(new Error("enough"));
  await assert.rejects(cancelled, /enough/);
  await Promise.all(pushes);
  assert.equal((await q.info()).ready, 4);
});

test("a call that ends under way is unknown, and the others go on", async () => {
  const { q, requests, reply } = await held();
  const stop = new AbortController();
  const pushes = some(q, 4);
  const cancelled = q.push("cancelled", { signal: stop.signal });
  await until("all are there", () => requests.length === 3);
  stop.abort(new Error("enough"));
  assert.equal((await fails(cancelled, UnknownResultError, 504)).cause.message, "enough");
  reply();
  await Promise.all(pushes);
});

test("what nobody waits for is not repeated", async () => {
  const { q, nc, bridge, requests, reply } = await held({ askAgainAfter: 20 });
  const stop = new AbortController();
  const pushes = some(q, 5, { signal: stop.signal });
  await until("all are there", () => requests.some((request) => sizeOf(request) === 3));
  stop.abort(new Error("enough"));
  for (const push of pushes) await fails(push, UnknownResultError, 504);
  await nc.flush();
  await bridge.flush();
  requests.length = 0;
  const other = q.push("other");
  await until("the other one is repeated", () => requests.length >= 4);
  assert.deepEqual(new Set(requests.map(({ body }) => body)), new Set(["other"]));
  reply();
  await other;
});

test("a lost answer adds nothing twice", async () => {
  const { client: own, lost } = await lossy();
  const q = queue(own);
  await q.configure({});
  const ids = (await Promise.all(some(q, 40))).map(({ id, duplicate }) => (assert.equal(duplicate, false), id));
  assert.deepEqual(lost, ["admin", "push"]);
  assert.deepEqual([new Set(ids).size, (await client.queue(q.name).info()).ready], [40, 40]);
  const items = await client.queue(q.name).popMany(40, { lease: "1m" });
  const theirs = items.map(({ ackSubject }) => own.attach(ackSubject.replace(/^pq/, own.grammar.prefix)));
  await Promise.all(theirs.map((item) => item.ack()));
  assert.deepEqual([lost, (await client.queue(q.name).info()).leased], [["admin", "push", "ack"], 0]);
});

test("a lost answer, and then a message that is taken apart, add nothing twice", async () => {
  const [added, alone] = [new Set(), new Set()];
  const idIn = (headers) => /Nats-Msg-Id: (.*)\n/.exec(headers)[1];
  let bundles = 0;
  const { client: own } = await fake((verb, n, m) => {
    if (m.headers?.has("PQ-Bundle")) {
      if (++bundles > 1) return failure(413, "", "too large");
      for (const { headers } of frames(m.string())) added.add(idIn(headers));
      return undefined;
    }
    const id = m.headers.get("Nats-Msg-Id");
    alone.add(id);
    return each(m, (payload) => result(payload, { duplicate: added.has(id) }));
  }, { askAgainAfter: 20 });
  const q = own.queue("q");
  await q.push("first");
  const all = await Promise.all(some(q, 10));
  assert.ok(bundles > 1);
  assert.equal(added.size, 8);
  assert.ok([...added].every((id) => alone.has(id)), "some did not go alone with the id that they had");
  for (const { duplicate } of all) assert.equal(duplicate, false); // it is the client's own attempt
});

test("pushes without an id are not repeated, and go with no others", async () => {
  const { q, requests, reply } = await held({ askAgainAfter: 20 });
  const stop = new AbortController();
  const without = some(q, 6, { withoutMsgId: true, signal: stop.signal });
  const others = some(q, 6);
  const ids = () => requests.flatMap((request) => (sizeOf(request) > 1 ? frames(request.body) : [request]).map(({ headers }) => /Nats-Msg-Id: (.*)\r?\n/.exec(`${headers}`)?.[1]));
  const times = (id) => ids().filter((other) => other === id).length;
  await until("all are there, and those with an id twice", () => times(undefined) >= 6 && new Set(ids().filter((id) => times(id) >= 2)).size === 7);
  assert.equal(times(undefined), 6, "pushes without an id were repeated");
  const bundles = requests.filter((request) => sizeOf(request) > 1).map(({ body }) => frames(body).filter(({ headers }) => headers.includes("Nats-Msg-Id")).length);
  assert.equal(bundles.filter((n) => n === 0).length, 1, `bundles with ${bundles} ids`);
  assert.ok(bundles.every((n) => n === 0 || n === 4), `bundles with ${bundles} ids`);
  stop.abort(new Error("enough"));
  for (const push of without) await fails(push, UnknownResultError, 504);
  reply();
  await Promise.all(others);
});

test("callers with one id add one item", async () => {
  const q = queue();
  const all = await Promise.all(some(q, 10, { msgId: "one" }));
  assert.deepEqual([new Set(all.map(({ id }) => id)).size, all.filter(({ duplicate }) => !duplicate).length, (await q.info()).ready], [1, 1, 1]);
});

test("unique values conflict within a bundle", async () => {
  const q = queue();
  await Promise.all([
    q.push("a"),
    q.push("b"), // from here on they go together
    q.push("first", { unique: "u", priority: 5 }),
    q.push("kept", { unique: "u", priority: 5 }),
    q.push("other", { unique: "u", priority: 5, onConflict: "replace" }),
    ...[1, 2, 3].map((n) => q.push(`${n}`, { unique: `${n}`, priority: 5 })),
  ]);
  await q.push("raised", { unique: "u", priority: -1, onConflict: "raise" });
  const items = await q.popMany(10);
  assert.deepEqual(items.map((item) => item.string()), ["other", "a", "b", "1", "2", "3"]);
});

test("pushes of several priorities go together where the program may", async () => {
  const { q, requests, reply } = await held();
  const push = () => Array.from({ length: 12 }, (_, i) => q.push(`${i}`, { priority: i % 2 }));
  const pushes = push(); // the first push had no priority
  await until("all are there", () => requests.length === 3);
  assert.deepEqual(requests.map(({ verb }) => verb), ["q.push.0", "q.push.1", "q.push"]);
  assert.deepEqual(frames(requests[2].body).map(({ headers }) => /PQ-Priority: (.*)\n/.exec(headers)[1]), ["0", "1", "0", "1", "0", "1", "0", "1", "0", "1"]);
  reply();
  await Promise.all(pushes);
});

test("who may push with some priorities alone gets no permission error", async () => {
  for (const [user, priorities] of [["five", [5]], ["star", [5, 6, 7]]]) {
    const nc = await connection({ user, pass: user });
    const errors = [];
    void (async () => {
      for await (const status of nc.status()) if (status.type === "error") errors.push(status.error.message);
    })();
    const q = new Client(nc, { timeout: patience }).queue(user);
    await q.push("first", { priority: 5 });
    const all = Array.from({ length: 30 }, (_, i) => q.push(`${i}`, { priority: priorities[i % priorities.length] }));
    assert.equal(new Set((await Promise.all(all)).map(({ id }) => id)).size, 30);
    await nc.flush();
    assert.deepEqual(errors, []);
  }
});

test("pushes keep their order across bundles", async () => {
  const own = new Client(await connection(), { timeout: patience, maxBundle: 7 });
  const q = queue(own);
  await q.configure({});
  const all = await Promise.all(Array.from({ length: 300 }, (_, i) => q.push(i % 50 === 20 ? "x".repeat(20_000) : `${i}`)));
  const seqs = all.map(({ seq }) => seq);
  assert.deepEqual(seqs, seqs.toSorted((a, b) => a - b));
});

test("settlements of any item go together, and keep their order", async () => {
  const q = queue();
  await q.pushMany(Array.from({ length: 20 }, (_, i) => ({ payload: `${i}` })));
  const items = [...(await q.popMany(19, { lease: "1m" })), await q.pop({ lease: "1m" })];
  const { connection: nc } = client;
  const [publish, sent] = [nc.publish, []];
  nc.publish = (subject, body, options) => {
    sent.push([subject.split(".").slice(2).join("."), Number(options?.headers?.get("PQ-Bundle") || 1)]);
    return publish.call(nc, subject, body, options);
  };
  const before = items[2].leaseExpires;
  try {
    const lost = items[5];
    await Promise.all(items.flatMap((item, i) => {
      switch (i % 5) {
        case 0: return [item.extend(), item.ack()];
        case 1: return [item.nak({ delay: "1h", reason: "busy" })];
        case 2: return [item.extend()];
        case 3: return [item.term("bad")];
        default: return [item.giveBack("stopped")];
      }
    }));
    assert.equal(lost.settled, true);
  } finally {
    nc.publish = publish;
  }
  assert.deepEqual(sent.map(([, n]) => n), [1, 1, 22]);
  assert.equal(sent[2][0], "ack.bundle.settle");
  assert.ok(items[2].leaseExpires > before);
  const { ready, leased, delayed } = await q.info();
  assert.deepEqual([ready, leased, delayed], [4, 4, 4]);
  await Promise.all(items.filter((_, i) => i % 5 === 2).map((item) => item.ack()));
  await fails(client.attach(items[0].ackSubject).extend(), LeaseLostError, 410, "gone");
});

test("who may not settle together settles alone", async () => {
  const nc = await connection({ user: "single", pass: "single" });
  const q = queue(new Client(nc, { timeout: patience }));
  const denied = [];
  void (async () => {
    for await (const status of nc.status()) if (status.type === "error") denied.push(status.error.subject);
  })();
  for (let round = 0; round < 2; round++) {
    await q.pushMany(Array.from({ length: 8 }, (_, i) => ({ payload: `${i}` })));
    const items = await q.popMany(8, { lease: "1m" });
    await Promise.all(items.map((item) => item.ack()));
  }
  assert.deepEqual(denied, [`pq.${q.name}.ack.bundle.settle`]);
  assert.equal((await q.info()).leased, 0);
});

test("the idle workers of a consumer ask together, for as many items as they are", async () => {
  const asked = [];
  const q = queue();
  const { connection: nc } = client;
  const publish = nc.publish;
  nc.publish = (subject, body, options) => {
    if (subject.startsWith(`pq.${q.name}.pop.`)) asked.push(JSON.parse(new TextDecoder().decode(body)).bundle ?? 1);
    return publish.call(nc, subject, body, options);
  };
  const finish = [];
  await q.configure({});
  const consumer = q.consume(() => new Promise((resolve) => finish.push(resolve)), { concurrency: 5 });
  try {
    await until("they wait", async () => (await q.info()).waiting === 1);
    assert.deepEqual(asked.splice(0, 1), [5]); // whether the queue exists
    assert.deepEqual(asked, [5]);
    await q.pushMany([{ payload: "a" }, { payload: "b" }]);
    await until("two work, and three wait", async () => finish.length === 2 && asked.length === 2 && (await q.info()).waiting === 1);
    assert.deepEqual(asked, [5, 3]);
    finish.splice(0).forEach((end) => end());
    await until("these wait, too", async () => (await q.info()).waiting === 2);
    assert.deepEqual(asked.slice(2), [2]);
    await q.pushMany(Array.from({ length: 20 }, (_, i) => ({ payload: `${i}` })));
    await until("all work", () => finish.length === 5);
  } finally {
    nc.publish = publish;
  }
  const drained = consumer.drain();
  finish.splice(0).forEach((end) => end());
  await drained;
  const { ready, leased, delayed } = await q.info();
  assert.deepEqual([ready, leased, delayed], [15, 0, 0]);
});

test("a consumer that stops when it is empty asks again if its pop overtook what it has settled", async () => {
  const q = queue();
  await q.configure({ key_limit: 1 });
  await q.pushMany(Array.from({ length: 5 }, (_, i) => ({ payload: `${i}`, key: "k" })));
  const [prefix, between] = [`overtaken-${q.name}`, await connection()];
  let overtaken = 0;
  let settle; // what the next pop overtakes
  between.subscribe(`${prefix}.>`, {
    callback: async (_, m) => {
      const subject = `pq.${m.subject.slice(prefix.length + 1)}`;
      const pass = () => between.publish(subject, m.data, { headers: m.headers, reply: m.reply });
      if (subject.includes(".ack.")) {
        settle = pass;
        return;
      }
      if (!settle) return pass();
      const found = await between.request(subject, m.data, { headers: m.headers, timeout: patience });
      between.publish(m.reply, found.data, { headers: found.headers, reply: found.reply });
      overtaken++;
      settle();
      settle = undefined;
    },
  });
  await between.flush();
  const own = new Client(await connection(), { prefix, bridgePrefix: "pq", timeout: patience, askAgainAfter: patience });
  const got = [];
  await own.queue(q.name).consume((taken) => void got.push(taken.string()), { stopWhenEmpty: true }).closed;
  assert.deepEqual(got, ["0", "1", "2", "3", "4"]);
  assert.equal(overtaken, 5);
});

test("a consumer that stops when it is empty takes all items of a key, in their order", async () => {
  const q = queue();
  await q.configure({ key_limit: 1 });
  await q.pushMany(Array.from({ length: 20 }, (_, i) => ({ payload: `${i}`, key: "k" })));
  const got = [];
  await q.consume((taken) => void got.push(taken.string()), { concurrency: 3, stopWhenEmpty: true }).closed;
  assert.deepEqual(got, Array.from({ length: 20 }, (_, i) => `${i}`));
});
