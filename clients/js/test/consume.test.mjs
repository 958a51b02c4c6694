// Workers.
import { test } from "node:test";
import assert from "node:assert/strict";
import { connect as dial, createServer } from "node:net";
import { BadRequestError, Client, GiveUp, LeaseLostError, RetryAfter } from "pqbridge";
import { answer, client, connection, fails, failure, fake, fresh, patience, queue, until } from "./world.mjs";

const left = async (q) => {
  const { ready, leased, delayed } = await q.info();
  return [ready, leased, delayed];
};

test("as many handlers as were asked for do all items, once each", async () => {
  const q = queue();
  const count = 300;
  await q.pushMany(Array.from({ length: count }, (_, i) => ({ payload: `${i}` })));
  const seen = new Map();
  let [running, most] = [0, 0];
  const consumer = q.consume(async (item, signal) => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 2));
    assert.equal(signal.aborted, false);
    seen.set(item.string(), (seen.get(item.string()) ?? 0) + 1);
    running--;
  }, { concurrency: 8, limit: count, onError: (err) => assert.fail(err) });
  await consumer.closed;
  assert.deepEqual([seen.size, Math.max(...seen.values()), most], [count, 1, 8]);
  assert.deepEqual(await left(q), [0, 0, 0]);
});

test("what a handler throws decides", async () => {
  const q = queue();
  const dead = client.queue(`${q.name}-dead`);
  const errors = [];
  for (const text of ["fail", "later", "hopeless", "own", "good", "fine"]) await q.push(text);
  await q.consume(async (item) => {
    switch (item.string()) {
      case "fail":
        throw new Error("no luck");
      case "later":
        throw new RetryAfter("1h", new Error("busy"));
      case "hopeless":
        throw new GiveUp("it cannot be done");
      case "own":
        await item.nak({ delay: "2h" });
        throw new Error("settled already");
    }
  }, { stopWhenEmpty: true, backoff: (deliveries) => deliveries * 3600_000, onError: (err, item) => errors.push(`${item.string()}: ${err.message}`) }).closed;
  assert.deepEqual(errors, ["fail: no luck", "later: again in 1h: busy", "hopeless: it cannot be done", "own: settled already"]);
  assert.deepEqual(await left(q), [0, 0, 3]);
  assert.equal((await dead.pop()).dead.reason, "it cannot be done");
});

test("the item is acknowledged after the work and not before", async () => {
  const q = queue();
  await q.push("x");
  let during;
  await q.consume(async () => {
    during = await left(q);
  }, { limit: 1 }).closed;
  assert.deepEqual(during, [0, 1, 0]);
  assert.deepEqual(await left(q), [0, 0, 0]);
});

test("leases of slow work are extended", async () => {
  const q = queue();
  await q.push("slow");
  const fences = [];
  const work = (item) => {
    fences.push(item.fence);
    return new Promise((resolve) => setTimeout(resolve, 7000));
  };
  await Promise.all([q.consume(work, { lease: "3s", limit: 1, onError: (err) => assert.fail(err) }).closed, q.pop({ lease: "3s", wait: "6s" }).then(() => assert.fail("the lease has ended"), () => {})]);
  assert.deepEqual(fences, [1]);
  assert.deepEqual(await left(q), [0, 0, 0]);
});

test("a handler hears that its lease is lost, and its failure settles nothing", async () => {
  const q = queue();
  const { id } = await q.push("x");
  const errors = [];
  await q.consume(async (_, signal) => {
    await q.remove(id);
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    throw signal.reason;
  }, { lease: "3s", limit: 1, onError: (err) => errors.push(err) }).closed;
  assert.equal(errors.length, 1);
  assert.ok(errors[0] instanceof LeaseLostError);
});

test("drain takes nothing more, and finishes what was begun", async () => {
  const q = queue();
  await q.push("x");
  let finish;
  const consumer = q.consume(() => new Promise((resolve) => (finish = resolve)), { concurrency: 3 });
  await until("one works and the others wait together", async () => finish && (await q.info()).waiting === 1);
  const drained = consumer.drain();
  await q.push("y");
  const first = await Promise.race([drained, q.pop({ wait: patience }).then((item) => item.string())]);
  assert.equal(first, "y"); // which the consumer did not take, or has given back
  finish();
  await drained;
  await consumer.closed;
  assert.deepEqual(await left(q), [0, 0, 0]);
});

test("a signal drains, and grace ends the work", async () => {
  const q = queue();
  await q.push("x");
  const stop = new AbortController();
  let started;
  const begun = new Promise((resolve) => (started = resolve));
  const errors = [];
  const consumer = q.consume(async (_, signal) => {
    started();
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    throw new Error("interrupted");
  }, { signal: stop.signal, onError: (err) => errors.push(err.message) });
  await begun;
  stop.abort();
  await consumer.drain({ grace: 10 });
  assert.deepEqual(errors, ["interrupted"]);
  const item = await q.pop({ lease: "1m" }); // given back at once
  assert.equal(item.fence, 2);
});

test("a consumer that cannot go on says why", async () => {
  const { client: c } = await fake(() => failure(400, "", "expected something else"));
  await fails(c.queue("jobs").consume(() => {}).closed, BadRequestError, 400);
  const own = await connection();
  const consumer = queue(new Client(own)).consume(() => {}, { concurrency: 2 });
  await own.close();
  await assert.rejects(consumer.closed);
});

test("a consumer reports trouble and goes on", async () => {
  const errors = [];
  const { client: c } = await fake((verb, n, _m, p) => {
    if (verb.includes("ack")) return answer({});
    return n <= 2 ? failure(506) : answer({ "PQ-Id": "i", "PQ-Ack": `${p}.jobs.ack.c.t` });
  }, { askAgainAfter: patience });
  await c.queue("jobs").consume(() => {}, { limit: 1, onError: (err) => errors.push(err.code) }).closed;
  assert.deepEqual(errors, [506, 506]);
});

test("without onError the errors of handlers and of pops are on the console", async (t) => {
  const { mock } = t.mock.method(console, "error", () => {});
  const q = queue();
  const [wrong, hopeless] = [new Error("no luck"), new GiveUp("it cannot be done")];
  const ids = [(await q.push("a")).id, (await q.push("b")).id];
  await q.consume((item) => {
    throw item.string() === "a" ? wrong : hopeless;
  }, { limit: 2 }).closed;
  const { client: c } = await fake(() => failure(400, "", "expected something else"));
  c.queue("jobs").consume(() => {});
  await until("it says why the consumer has ended", () => mock.callCount() === 3);
  assert.deepEqual(mock.calls.map((call) => call.arguments), [
    [`pqbridge: item ${ids[0]} of ${q.name}:`, wrong],
    [`pqbridge: item ${ids[1]} of ${q.name}:`, "it cannot be done"],
    ["pqbridge:", "pop jobs: expected something else (400)"],
  ]);
  await fails(c.queue("jobs").consume(() => {}).closed, BadRequestError, 400);
  assert.equal(mock.callCount(), 3); // who waits for the end hears of it there
});

test("a consumer says once that nothing answers, and again after an answer", async () => {
  for (const retryFor of [0, 1]) { // one pop that is repeated, and many
    const [away, errors] = [failure(503, "", "away"), []];
    let say = [away];
    const { client: c, requests } = await fake((verb, _n, _m, p) => {
      if (verb.includes("ack")) return answer({});
      const [now, ...rest] = say;
      if (rest.length > 0) say = rest;
      return now ?? answer({ "PQ-Id": "i", "PQ-Ack": `${p}.jobs.ack.c.t` });
    }, { askAgainAfter: patience, retryFor });
    c.patience.absence = 1;
    const consumer = c.queue("jobs").consume(() => {}, { limit: 1, onError: (err) => errors.push(err.message) });
    await until("it has asked for some time", () => requests.length > 4 && errors.length > 0);
    say = [failure(506, "", "damaged"), away];
    await until("it says so again", () => errors.length > 2);
    say = [undefined];
    await consumer.closed;
    assert.deepEqual(errors, ["pop jobs: away (503)", "pop jobs: damaged (506)", "pop jobs: away (503)"]);
  }
});

test("a consumer says once that its queue does not exist", async () => {
  for (const concurrency of [1, 8]) {
    const [q, errors] = [queue(), []];
    const consumer = q.consume(() => {}, { concurrency, limit: 1, onError: (err) => errors.push(err) });
    await until("it says so", () => errors.length > 0);
    await q.push("x");
    await consumer.closed;
    const again = q.consume(() => {}, { concurrency, onError: (err) => errors.push(err) }); // it is empty
    await until("it waits", async () => (await q.info()).waiting > 0);
    await again.drain();
    await q.delete();
    await q.consume(() => {}, { concurrency, stopWhenEmpty: true, onError: (err) => errors.push(err) }).closed;
    const text = `consume ${q.name}: queue ${q.name} does not exist yet: expected its first push, or another name (404)`;
    assert.deepEqual(errors.map(({ name, code, reason, message }) => [name, code, reason, message]), Array(2).fill(["NotFoundError", 404, "unknown", text]));
  }
});

test("a consumer that is stopped before its first answer gives that back", async () => {
  let reply;
  const { client: c, requests, bridge, nc, prefix } = await fake((verb, _n, m) => void (verb.includes("pop") && (reply = m.reply)), { askAgainAfter: patience });
  const consumer = c.queue("jobs").consume(() => assert.fail("it was stopped"));
  await until("it has asked", () => reply);
  const drained = consumer.drain();
  const { headers, body } = answer({ "PQ-Id": "i", "PQ-Ack": `${prefix}.jobs.ack.c.t` });
  bridge.publish(reply, body, { headers });
  await drained;
  await nc.close();
  await until("it is back", () => requests.some((one) => one.verb.includes("ack") && one.body === "+BACK"));
});

test("a consumer says that no bridge is there", async () => {
  const c = new Client(await connection(), { prefix: fresh("nobody") });
  c.patience.absence = 1;
  let consumer;
  const err = await new Promise((resolve) => (consumer = c.queue("jobs").consume(() => {}, { onError: resolve })));
  assert.equal(err.message, "pop jobs: no bridge is there (503)");
  await consumer.drain();
});

test("a consumer says that there is no connection", async (t) => {
  const sockets = new Set();
  const { hostname, port } = new URL(process.env.NATS_URL);
  const proxy = createServer((socket) => {
    const server = dial(Number(port), hostname);
    for (const [one, other] of [[socket, server], [server, socket]]) {
      sockets.add(one);
      one.pipe(other);
      one.on("error", () => {}).on("close", () => other.destroy());
    }
  });
  await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  const address = proxy.address();
  const cut = () => {
    proxy.close();
    for (const socket of sockets) socket.destroy();
  };
  t.after(cut);
  const own = await connection({ servers: `nats://127.0.0.1:${address.port}` });
  const q = queue(new Client(own, { timeout: patience }));
  q.client.patience.absence = 10;
  await q.configure({});
  const errors = [];
  const consumer = q.consume(() => {}, { concurrency: 2, onError: (err) => errors.push(err.message) });
  await until("it waits", async () => (await client.queue(q.name).info()).waiting > 0);
  cut();
  await until("it says so", () => errors.length > 0);
  await new Promise((resolve) => proxy.listen(address.port, "127.0.0.1", resolve));
  await client.queue(q.name).push("x");
  await until("it has the item", async () => (await client.queue(q.name).info()).ready === 0);
  await consumer.drain();
  assert.deepEqual(errors, [`pop ${q.name}: there is no connection to NATS (503)`]);
});

test("a consumer has its next item as soon as there is a new connection", async () => {
  const own = await connection();
  const q = queue(new Client(own, { timeout: patience }));
  const direct = client.queue(q.name);
  await direct.configure({});
  const got = [];
  const consumer = q.consume((item) => void got.push(item.string()), { limit: 1 });
  await until("it waits", async () => (await direct.info()).waiting === 1);
  await own.reconnect();
  await until("it waits again", async () => (await direct.info()).waiting === 2);
  await direct.push("x");
  await consumer.closed;
  assert.deepEqual(got, ["x"]);
  assert.deepEqual(await left(direct), [0, 0, 0]);
});

test("the items of a key come one after another", async () => {
  const q = queue();
  await q.configure({ key_order: true });
  const all = [];
  for (let i = 0; i < 60; i++) all.push({ payload: `${i}`, key: `k${i % 3}` });
  await q.pushMany(all);
  const seen = { k0: [], k1: [], k2: [] };
  const busy = new Set();
  await q.consume(async (item) => {
    assert.ok(!busy.has(item.key));
    busy.add(item.key);
    await new Promise((resolve) => setTimeout(resolve, 1));
    seen[item.key].push(Number(item.string()));
    busy.delete(item.key);
  }, { concurrency: 6, limit: 60, onError: (err) => assert.fail(err) }).closed;
  for (const [key, numbers] of Object.entries(seen)) assert.deepEqual(numbers, Array.from({ length: 20 }, (_, i) => i * 3 + Number(key[1])));
});
