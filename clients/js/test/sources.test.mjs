// Sources: streams that feed a queue.
import { test } from "node:test";
import assert from "node:assert/strict";
import { headers } from "@nats-io/nats-core";
import { BadRequestError, ForbiddenError, NotFoundError, UnknownResultError } from "pqbridge";
import { answer, client, fails, fake, lossy, nc, patience, until } from "./world.mjs";

const q = client.queue("copies"); // which may read ORDERS
const orders = { remote: "self", stream: "ORDERS" };

const stream = { name: "ORDERS", subjects: ["orders.>"] };
await nc.request("$JS.API.STREAM.CREATE.ORDERS", JSON.stringify(stream), { timeout: patience });

async function publish(payload, fields = {}) {
  const h = headers();
  for (const [name, value] of Object.entries(fields)) h.append(name, value);
  return (await nc.request("orders.eu", payload, { headers: h, timeout: patience })).json().seq;
}

test("a source is made, shown, changed and removed", async () => {
  await fails(q.source("s"), NotFoundError, 404, "unknown");
  const map = { priority: { header: "Prio", default: 9 }, key: { token: 2 }, weight: 3, ttl: "1h", unique: 2n ** 60n };
  const made = await q.setSource("s", { ...orders, filter: ["orders.eu", "orders.us"], start: { seq: 2n ** 60n + 1n }, map, batch: 7, paused: true });
  assert.deepEqual(made, {
    name: "s", ...orders, queue: "", link: "", mode: "copy", filter: ["orders.eu", "orders.us"], start: { seq: 2n ** 60n + 1n }, batch: 7, paused: true,
    map: { priority: { header: "Prio", default: "9" }, key: { token: 2 }, weight: "3", ttl: "1h", unique: `${2n ** 60n}` },
    state: "paused", reason: "", since: undefined, seq: 0, time: undefined, last: 0, lag: 0, runner: "", counts: { delivered: 0, skipped: 0, poisoned: 0 },
  });
  assert.deepEqual(await q.source("s"), made);
  assert.deepEqual(await q.setSource("s", { filter: [], map: {} }), { ...made, filter: [], map: {} });
  assert.equal((await q.setSource("s", { paused: false })).paused, false);
  assert.equal((await q.pauseSource("s")).paused, true);
  assert.equal((await q.resumeSource("s", {})).paused, false);
  await q.deleteSource("s");
  await fails(q.deleteSource("s"), NotFoundError, 404, "unknown");
  const time = new Date("2099-01-31T09:00:00.5Z");
  assert.deepEqual((await q.setSource("s", { ...orders, start: { time }, paused: true })).start, { time });
  await q.deleteSource("s");
  assert.equal((await q.setSource("s", { ...orders, start: "new", paused: true })).start, "new");
  await q.deleteSource("s");
});

test("all pages of sources", async () => {
  const names = ["a", "b", "c", "d", "e"];
  for (const name of names) await q.setSource(name, { ...orders, paused: true });
  const seen = [];
  for await (const { name, state } of q.sources({ page: 2 })) seen.push([name, state]);
  assert.deepEqual(seen, names.map((name) => [name, "paused"]));
  for await (const { name } of q.sources({ after: "d" })) assert.equal(name, "e");
  for (const name of names) await q.deleteSource(name);
});

test("a source feeds its queue, and items say from where", async () => {
  const seq = await publish("a book", { "Nats-Msg-Id": "order-7", Season: "autumn" });
  await q.setSource("orders", { ...orders, start: { seq } });
  const item = await q.pop({ wait: patience });
  const { name, subject, seq: from, time, msgId } = item.source;
  assert.deepEqual([item.string(), { ...item.headers }, name, subject, from, msgId], ["a book", { Season: ["autumn"] }, "orders", "orders.eu", seq, "order-7"]);
  assert.ok(Math.abs(Date.now() - time.getTime()) < patience);
  const shown = await q.source("orders");
  assert.deepEqual([shown.seq, shown.time, shown.counts.delivered], [seq, time, 1]);
  await q.push("x");
  assert.equal((await q.pop()).source, undefined);

  // A message that is no item stops it.
  const poison = await publish("too many headers", Object.fromEntries(Array.from({ length: 2000 }, (_, i) => [`H${i}`, "x"])));
  await publish("a pen");
  await until("it has stopped", async () => (await q.source("orders")).state === "stopped");
  const { reason, since } = await q.source("orders");
  assert.match(reason, /^poisoned: /);
  assert.ok(Math.abs(Date.now() - since.getTime()) < patience);
  await fails(q.resumeSource("orders"), BadRequestError, 400);
  assert.equal((await q.resumeSource("orders", { skip: true })).counts.poisoned, 1);
  assert.deepEqual((await q.pop({ wait: patience })).source.seq, poison + 1);
  await q.resumeSource("orders", { fromTime: time });
  assert.equal((await q.pop({ wait: patience })).string(), "a book");
  await q.pauseSource("orders");
  assert.equal((await q.resumeSource("orders", { fromSeq: 2n ** 62n + 2n })).seq, 2n ** 62n + 1n);
  await q.deleteSource("orders");
});

test("a resume with a choice is not repeated", async () => {
  await q.setSource("s", { ...orders, start: "new", paused: true });
  const { client: c } = await lossy({ timeout: 500 });
  await fails(c.queue(q.name).resumeSource("s", { accept: true }), UnknownResultError, 504);
  const { client: d } = await lossy();
  assert.equal((await d.queue(q.name).resumeSource("s")).paused, false);
  await q.deleteSource("s");
});

test("wrong sources are refused", async () => {
  const wrong = [
    () => q.source("a.b"), () => q.source(""), () => q.source("s".repeat(65)), () => q.setSource("s"), () => q.setSource("s", { streams: "ORDERS" }), () => q.setSource("s", { mode: "move" }),
    () => q.setSource("s", { start: "last" }), () => q.setSource("s", { start: {} }), () => q.setSource("s", { start: { seq: 0 } }), () => q.setSource("s", { start: { seq: 1, time: new Date() } }),
    () => q.setSource("s", { start: null }), () => q.setSource("s", { paused: 1 }), () => q.resumeSource("s", { skip: true, accept: true }), () => q.resumeSource("s", { fromSeq: 1.5 }), () => q.resumeSource("s", { from: 1 }),
    () => q.sources({ page: 101 }).next(), () => q.sources({ after: "a.b" }).next(),
  ];
  for (const call of wrong) await fails((async () => call())(), TypeError);
  await fails(q.setSource("s", { remote: "self" }), BadRequestError, 400);
  await fails(q.setSource("s", { remote: "self", stream: "AUDIT" }), ForbiddenError, 403, "");
  await fails(client.queue("mail").setSource("s", orders), ForbiddenError, 403, "");
  const { client: c } = await fake(() => answer({}, JSON.stringify({ ...orders, name: "s", start: "first", seq: 1 })));
  await fails(c.queue("jobs").source("s"), UnknownResultError, 504);
});
