// Pushes, pops, peeks and administration.
import { test } from "node:test";
import assert from "node:assert/strict";
import { BusyError, Client, EmptyError, NotFoundError } from "pqbridge";
import { client, fails, nc, patience, queue, until } from "./world.mjs";

test("a push says what it has done", async () => {
  const q = queue();
  const first = await q.push("x", { priority: 5, msgId: "a" });
  assert.deepEqual({ ...first, id: "" }, { id: "", seq: 1, priority: 5, duplicate: false, evicted: false });
  assert.deepEqual(await q.push("y", { priority: 7, msgId: "a" }), { ...first, duplicate: true });
  assert.equal((await q.info()).ready, 1);
});

test("priorities have 64 bits", async () => {
  const q = queue();
  const [low, high] = [-(2n ** 63n), 2n ** 63n - 1n];
  for (const priority of [0, high, -0, low, 2 ** 53 - 1, 2n ** 53n + 1n]) {
    const given = priority === 0 ? 0 : typeof priority === "bigint" ? priority : Number(priority);
    assert.equal((await q.push("x", { priority })).priority, given);
  }
  const popped = [];
  for (let i = 0; i < 6; i++) popped.push((await q.pop()).priority);
  assert.deepEqual(popped, [low, 0, 0, 2 ** 53 - 1, 2n ** 53n + 1n, high]);
  await q.push("x", { priority: high });
  assert.equal((await q.peek({ min: high, max: high })).priority, high);
  await fails(q.pop({ max: high - 1n }), EmptyError, 404, "band");
  for await (const { priority } of q.list({ min: high })) assert.equal(priority, high);
  assert.equal((await q.configure({ priority: low })).priority, low);
  assert.equal((await q.info()).config.priority, low);
});

test("content is unchanged", async () => {
  const q = queue();
  const data = new Uint8Array(300_000).map((_, i) => (i * i) % 251);
  const headers = { "X-Mine": "käse, brot", Many: ["b", "a"] };
  await q.push(data, { headers });
  const item = await q.pop();
  assert.deepEqual(Buffer.compare(item.data, data), 0);
  assert.deepEqual({ ...item.headers }, { "X-Mine": ["käse, brot"], Many: ["b", "a"] });
  await q.push("grüße 🌍", { headers: item.headers });
  assert.equal((await q.pop()).string(), "grüße 🌍");
  await q.push("");
  assert.equal((await q.pop()).data.length, 0);
  await q.push('{"a":1}');
  assert.deepEqual((await q.pop()).json(), { a: 1 });
  const values = [{ a: [1, "ü", null] }, null, ""];
  await q.pushMany(values.map((json) => ({ payload: { json } })));
  await q.configure({ hand_over: q.name });
  const leased = await q.pop({ lease: "1m" });
  await leased.handOver(q, { json: { of: leased.json() } });
  await q.push({ json: 0 });
  for (const value of [null, "", { of: values[0] }, 0]) assert.deepEqual((await q.pop()).json(), value);
});

test("delay, not before and ttl", async () => {
  const q = queue();
  const { id } = await q.push("late", { delay: "1h30m" });
  const item = await q.get(id);
  assert.equal(item.state, "delayed");
  assert.equal(item.waitsFor, "delay");
  assert.ok(Math.abs(item.notBefore.getTime() - item.pushed.getTime() - 90 * 60_000) < 1000, `${item.notBefore}`);
  await fails(q.pop(), EmptyError, 404, "delayed");
  await q.push("soon", { delay: 20 });
  assert.equal((await q.pop({ wait: patience })).string(), "soon");
  const at = new Date(Date.now() + 3600_000);
  const { notBefore } = await q.get((await q.push("x", { notBefore: at })).id);
  assert.ok(Math.abs(notBefore - at) < 1000, `${notBefore.toISOString()}, expected ${at.toISOString()}`); // by the store's clock
  const short = await q.push("x", { ttl: "1ms", priority: -1 });
  await until("the item has expired", () => q.get(short.id).then(() => false, (err) => err instanceof NotFoundError));
});

test("key and unique", async () => {
  const q = queue();
  await q.configure({ key_order: true, lease: "1m" });
  await q.push("charge Ann", { key: "ann" });
  await q.push("thank Ann", { key: "ann" });
  const first = await q.pop();
  assert.deepEqual([first.string(), first.key], ["charge Ann", "ann"]);
  await fails(q.pop(), EmptyError, 404, "blocked");
  for await (const listed of q.list({ state: "leased" })) assert.equal(listed.keyFence, first.keyFence);
  await first.ack();
  const second = await q.pop();
  assert.equal(second.string(), "thank Ann");
  assert.ok(first.keyFence > 0 && second.keyFence > first.keyFence, `${first.keyFence}, then ${second.keyFence}`);

  const one = await q.push("first draft", { unique: "7", key: "doc" });
  const two = await q.push("second draft", { unique: "7", key: "doc", onConflict: "replace" });
  assert.deepEqual([two.id, two.duplicate], [one.id, true]);
  const item = await q.get(one.id);
  assert.deepEqual([item.string(), item.unique, item.uniqueUntil], ["second draft", "7", ""]);
  await q.push("x", { unique: "8", uniqueUntil: "leased", onConflict: "raise" });
});

test("pops from both ends, bands and peeks", async () => {
  const q = queue();
  for (const priority of [5, -1, 9]) await q.push(`item ${priority}`, { priority });
  assert.equal((await q.peek()).string(), "item -1");
  assert.deepEqual((await q.peekMany(10, { end: "max" })).map((i) => i.string()), ["item 9", "item 5", "item -1"]);
  const first = await q.pop();
  assert.deepEqual([first.string(), first.priority, first.pending, first.leased, first.ackSubject, first.deliveries], ["item -1", -1, 2, false, "", 0]);
  await fails(q.pop({ min: 6, max: 8 }), EmptyError, 404, "band");
  assert.equal((await q.pop({ end: "max" })).string(), "item 9");
  assert.equal((await q.pop({ max: 5 })).string(), "item 5");
  await fails(q.peek(), EmptyError, 404, "empty");
  await fails(queue().pop(), EmptyError, 404, "unknown");
});

test("many items in one message", async () => {
  const q = queue();
  const all = await q.pushMany([
    { payload: "read the news" },
    { payload: "put out the fire", priority: -1, headers: { A: ["ü", "2"] }, msgId: "fire" },
    { payload: new Uint8Array([0, 10, 255]), priority: 2n ** 62n, key: "k" },
  ]);
  assert.deepEqual(all.map((p) => [p.priority, p.duplicate]), [[0, false], [-1, false], [2n ** 62n, false]]);
  const again = await q.pushMany([{ payload: "put out the fire", priority: -1, msgId: "fire" }, { payload: "x", priority: 1 }]);
  assert.deepEqual(again.map((p) => p.duplicate), [true, false]);
  assert.equal(again[0].id, all[1].id);
  const items = await q.popMany(10, { lease: "1m" });
  assert.deepEqual(items.map((i) => [i.priority, i.string().length, i.key]), [[-1, 16, ""], [0, 13, ""], [1, 1, ""], [2n ** 62n, 3, "k"]]);
  assert.deepEqual({ ...items[0].headers }, { A: ["ü", "2"] });
  assert.deepEqual([...items[3].data], [0, 10, 255]);
  await Promise.all(items.map((item) => item.ack()));
  const { ready, leased } = await q.info();
  assert.deepEqual([ready, leased], [0, 0]);
  assert.deepEqual(await q.pushMany([]), []);
  await fails(q.popMany(3), EmptyError, 404, "empty");
  assert.equal((await q.pushMany(Array.from({ length: 1000 }, (_, i) => ({ payload: `${i}` })))).length, 1000);
  assert.deepEqual((await q.popMany(1000)).map((i) => i.string()), Array.from({ length: 1000 }, (_, i) => `${i}`));
});

test("a pop waits for an item", async () => {
  const q = queue();
  const pop = q.pop({ wait: "50s" });
  await until("the pop waits", async () => (await q.info().catch(() => ({ waiting: 0 }))).waiting === 1 || (await q.configure({})) === undefined);
  await q.push("x");
  assert.equal((await pop).string(), "x");
  await fails(q.pop({ wait: 20 }), EmptyError, 408);
});

test("a pop that is abandoned gets no item", async () => {
  const q = queue();
  await q.configure({});
  const stop = new AbortController();
  const pop = q.pop({ wait: "1m", lease: "1m", signal: stop.signal });
  await until("the pop waits", async () => (await q.info()).waiting === 1);
  stop.abort(new Error("enough"));
  await assert.rejects(pop, (err) => err.code === 504 && err.cause?.message === "enough");
  await q.push("x");
  // The bridge may answer the pop; the item returns at once and not when its lease ends.
  assert.equal((await q.pop({ wait: "50s" })).string(), "x");
});

test("pushes keep the order of the calls", async () => {
  const q = queue();
  await Promise.all(Array.from({ length: 2000 }, (_, i) => q.push(`${i}`)));
  const got = [...(await q.popMany(1000)), ...(await q.popMany(1000))].map((i) => i.string());
  assert.deepEqual(got, Array.from({ length: 2000 }, (_, i) => `${i}`));
});

test("look and change", async () => {
  const q = queue();
  const { id } = await q.push("x", { priority: 7, headers: { "X-Mine": "1" }, ttl: "1h" });
  await q.push("y", { priority: 8, delay: "1h" });
  await q.move(id, -7);
  const found = [];
  for await (const item of q.list({ bodies: true, page: 1 })) found.push(item);
  assert.equal(found.length, 1);
  const { priority, headers, data, state, size, expires } = found[0];
  assert.deepEqual([priority, headers, Buffer.from(data).toString(), state, size > 0], [-7, { "X-Mine": ["1"] }, "x", "ready", true]);
  assert.ok(expires > new Date());
  for await (const item of q.list({ preview: 1 })) assert.deepEqual([Buffer.from(item.preview).toString(), item.data], ["x", undefined]);
  for (const past of [await q.history(), await q.client.history()]) assert.deepEqual([past.push.length, past.step, typeof past.bridge], [60, 60, "string"]);
  for await (const item of q.list({ state: "delayed" })) assert.equal(item.data, undefined);
  const item = await q.get(id);
  assert.deepEqual([item.id, item.state, item.priority, item.queue], [id, "ready", -7, q.name]);
  await q.remove(id);
  await fails(q.get(id), NotFoundError, 404, "unknown");
  await fails(q.remove(id), NotFoundError, 404, "unknown");
  await q.push("z");
  await q.pause();
  assert.equal((await q.info()).paused, true);
  await fails(q.pop(), EmptyError, 404, "paused");
  await q.resume();
  assert.equal(await q.purge(), 2);
  assert.equal((await q.configure({ lease: "1m" })).lease, "1m0s");
  assert.equal((await q.config()).max_deliveries, 16);
  const names = [];
  for await (const name of client.queues({ prefix: q.name })) names.push(name);
  assert.deepEqual(names, [q.name]);
  await q.delete();
  await fails(q.info(), NotFoundError, 404, "unknown");
  assert.equal((await client.system()).prefix, "pq");
});

test("all pages of a list", async () => {
  const q = queue();
  await q.pushMany(Array.from({ length: 25 }, (_, i) => ({ payload: "x", priority: i })));
  const seen = [];
  for await (const { priority } of q.list({ page: 10, min: 2 })) seen.push(priority);
  assert.deepEqual(seen, Array.from({ length: 23 }, (_, i) => i + 2));
});

test("a dead letter is requeued once", async () => {
  const q = queue();
  const dead = client.queue(`${q.name}-dead`);
  await q.push("x", { priority: 3, key: "k", headers: { A: "1" } });
  await (await q.pop({ lease: "1m" })).term("it cannot be done");
  const letter = await dead.peek();
  assert.deepEqual(letter.dead, { reason: "it cannot be done", origin: q.name, originId: letter.dead.originId, at: letter.dead.at, deliveries: 1, interruptions: 0 });
  assert.ok(Math.abs(Date.now() - letter.dead.at.getTime()) < 60_000);
  for await (const { dead: listed } of dead.list()) assert.deepEqual(listed, letter.dead);
  await q.configure({ max_length: 1, overflow: "evict" });
  await q.push("more urgent", { priority: 1 });
  const impatient = new Client(nc, { retryFor: 1 }).queue(q.name);
  await fails(impatient.requeue(letter.id), BusyError, 429, "full");
  await q.purge();
  await q.requeue(letter.id);
  const item = await q.pop({ lease: "1m" });
  assert.deepEqual([item.string(), item.priority, item.key, item.headers.A, item.deliveries], ["x", 3, "k", ["1"], 1]);
  await fails(q.requeue(letter.id), NotFoundError, 404, "unknown");
  await fails(dead.pop(), EmptyError, 404, "empty");
});

test("flush waits for the answers of pushes", async () => {
  const q = queue();
  let answered = 0;
  for (let i = 0; i < 100; i++) void q.push("x").then(() => answered++);
  await client.flush();
  await Promise.resolve();
  assert.equal((await q.info()).ready, 100);
  assert.equal(answered, 100);
  assert.equal(nc.isClosed(), false);
});
