// Runs in a page whose address names the server. Half way it asks the site to kill pqd, and goes on.
import { wsconnect } from "@nats-io/nats-core";
import * as pq from "pqbridge";

const report = (results) => fetch("report", { method: "POST", body: JSON.stringify(results) });

function equal(what, found, expected) {
  const [f, e] = [JSON.stringify(found), JSON.stringify(expected)];
  if (f !== e) throw new Error(`${what}: found ${f}, expected ${e}`);
}

const checks = {
  async "push, pop and settle"(client) {
    const q = client.queue("page");
    await q.push("käse", { priority: 2n ** 60n, headers: { A: "ü" } });
    await q.pushMany([{ payload: "x", priority: 1 }, { payload: new Uint8Array([1, 2]) }]);
    const [first, second] = await q.popMany(2, { lease: "1m" });
    equal("sizes", [first.data.length, second.string()], [2, "x"]);
    await first.nak();
    const next = await second.ackNext();
    equal("next", [...next.data], [1, 2]);
    await next.ack();
    const last = await q.pop();
    equal("last", [last.string(), `${last.priority}`, last.headers.A], ["käse", `${2n ** 60n}`, ["ü"]]);
    for await (const item of q.list({ bodies: true })) throw new Error(`${item.id} is left`);
  },

  async "errors"(client) {
    const q = client.queue("page");
    const errorOf = (promise) => promise.then(() => "none", (err) => [err.constructor === pq[err.name], err.name, err.code, err.reason]);
    equal("empty", await errorOf(q.pop()), [true, "EmptyError", 404, "empty"]);
    const { id } = await q.push("x");
    await q.remove(id);
    equal("no such item", await errorOf(q.get(id)), [true, "NotFoundError", 404, "unknown"]);
    equal("wrong", await q.push({}).catch((err) => err.name), "TypeError");
  },

  async "extend a lease"(client) {
    const q = client.queue("slow");
    await q.push("x");
    await q.consume(() => new Promise((resolve) => setTimeout(resolve, 7000)), { lease: "3s", limit: 1 }).closed;
    const { ready, leased } = await q.info();
    equal("left", [ready, leased], [0, 0]);
  },

  async "nothing is lost or doubled when pqd is killed"(client) {
    const [q, count] = [client.queue("killed"), 600];
    const done = new Map();
    let killed;
    const consumer = q.consume((item) => {
      done.set(item.string(), (done.get(item.string()) ?? 0) + 1);
      if (done.size === count / 2) killed = fetch("kill", { method: "POST" });
    }, { concurrency: 4, lease: "1h", repeatable: true, limit: count });
    const pushes = [];
    for (let i = 0; i < count; i++) {
      pushes.push(q.push(`${i}`));
      if (i % 20 === 19) await pushes[i - 19];
    }
    equal("duplicates", (await Promise.all(pushes)).filter((p) => p.duplicate).length, 0);
    await consumer.closed;
    await killed;
    equal("done", [done.size, Math.max(...done.values())], [count, 1]);
    const { ready, leased, delayed } = await q.info();
    equal("left", [ready, leased, delayed], [0, 0, 0]);
  },
};

const results = [];
try {
  const nc = await wsconnect({ servers: new URLSearchParams(location.search).get("server"), reconnectTimeWait: 50, maxReconnectAttempts: -1 });
  const client = new pq.Client(nc, { timeout: "1h" });
  for (const [name, check] of Object.entries(checks)) {
    const error = await check(client).then(() => "", (err) => `${err.stack ?? err}`);
    results.push({ name, error });
  }
  await nc.close();
} catch (err) {
  results.push({ name: "connect", error: `${err.stack ?? err}` });
}
await report(results);
