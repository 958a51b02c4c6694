// Schedules.
import { test } from "node:test";
import assert from "node:assert/strict";
import { BadRequestError, BusyError, Client, NotFoundError } from "pqbridge";
import { fails, lossy, nc, patience, queue } from "./world.mjs";

const far = { spec: "0 12 1 1 *", zone: "Europe/Berlin" };
const at = new Date("2099-01-31T09:00:00Z");

test("a schedule is made, shown, changed and removed", async () => {
  const q = queue();
  await fails(q.schedule("s"), NotFoundError, 404, "unknown");
  const made = await q.setSchedule("s", { ...far, start: at, catchUp: "2h", jitter: 90_000, item: { payload: "report", headers: { A: "b", C: ["d", "e"] }, priority: -(2n ** 63n), key: "k", weight: 3, ttl: "1h", cost: 7 } });
  const { next, due, times, ...rest } = made;
  assert.deepEqual(next, new Date("2100-01-01T11:00:00Z"));
  assert.ok(due >= next && due - next <= 90_000);
  assert.deepEqual(times, []);
  assert.deepEqual(rest, {
    name: "s", spec: far.spec, zone: far.zone, start: at, end: undefined, count: 0, overlap: "skip", catchUp: "2h0m0s", missed: "one", jitter: "1m30s",
    item: { payload: "report", headers: { A: ["b"], C: ["d", "e"] }, priority: -(2n ** 63n), key: "k", weight: 3, ttl: "1h0m0s", cost: 7 },
    paused: false, last: undefined, done: false, full: false, counts: { fired: 0, missed: 0, overlapped: 0 },
  });
  const shown = await q.schedule("s");
  assert.equal(shown.times.length, 10);
  assert.deepEqual(shown.times[0], next);
  assert.deepEqual(await q.setSchedule("t", { spec: "@daily", item: shown.item }).then((s) => s.item), shown.item);

  const soon = await q.setSchedule("s", { start: null });
  assert.deepEqual([soon.start, soon.next < at, soon.item.payload], [undefined, true, "report"]);
  assert.equal((await q.setSchedule("s", { item: { payload: { json: ["a"] } } })).item.payload, '["a"]');
  const data = new Uint8Array([0, 255, 10]);
  assert.deepEqual((await q.setSchedule("s", { item: { payload: data } })).item, { payload: data, headers: undefined, priority: undefined, key: undefined, weight: undefined, ttl: undefined, cost: undefined });
  assert.deepEqual(await q.scheduleTimes("new", { spec: `@at ${at.toISOString()}` }), [at]);
  await fails(q.schedule("new"), NotFoundError, 404, "unknown");

  const { paused, next: none } = await q.pauseSchedule("s");
  assert.deepEqual([paused, none], [true, undefined]);
  const again = await q.resumeSchedule("s");
  assert.deepEqual([again.paused, again.next], [false, soon.next]);
  assert.deepEqual((await q.resumeSchedule("s", { from: "now" })).next, soon.next);
  await q.deleteSchedule("s");
  await fails(q.deleteSchedule("s"), NotFoundError, 404, "unknown");
});

test("all pages of schedules", async () => {
  const q = queue();
  const names = ["a", "b", "c", "d", "e"];
  for (const name of names) await q.setSchedule(name, far);
  const seen = [];
  for await (const { name, item } of q.schedules({ page: 2 })) seen.push([name, item]);
  assert.deepEqual(seen, names.map((name) => [name, undefined]));
  for await (const { name } of q.schedules({ after: "d" })) assert.equal(name, "e");
});

test("a schedule fires, and its items say so", async () => {
  const q = queue();
  const { next } = await q.setSchedule("tick", { spec: "@every 1s", count: 1, item: { payload: "work" } });
  const item = await q.pop({ wait: patience });
  assert.deepEqual([item.string(), item.schedule, { ...item.headers }], ["work", "tick", {}]);
  assert.ok(item.scheduledAt >= next, "it is the last of the times that were due");
  const { done, last, counts } = await q.schedule("tick");
  assert.deepEqual([done, last, counts.fired], [true, item.scheduledAt, 1]);
});

test("a run pushes now, with an id once", async () => {
  const q = queue();
  await q.setSchedule("s", { ...far, overlap: "allow", item: { payload: "x" } });
  const first = await q.runSchedule("s", { msgId: "a" });
  assert.deepEqual(await q.runSchedule("s", { msgId: "a" }), { ...first, duplicate: true });
  const { client: c, lost } = await lossy();
  const { id } = await c.queue(q.name).runSchedule("s", { msgId: "b" });
  assert.deepEqual(lost, ["admin"]);
  assert.deepEqual((await q.popMany(10)).map((i) => i.id), [first.id, id]);
  const { client: other } = await lossy({ timeout: 500 });
  await assert.rejects(() => other.queue(q.name).runSchedule("s"), (err) => err.code === 504);
  assert.equal((await q.info()).ready, 1);
});

test("wrong schedules are refused", async () => {
  const q = queue();
  for (const wrong of [
    () => q.schedule("a.b"), () => q.schedule(""), () => q.schedule("s".repeat(65)), () => q.setSchedule("s"), () => q.setSchedule("s", { cron: "@daily" }),
    () => q.setSchedule("s", { start: "2099-01-31" }), () => q.setSchedule("s", { overlap: "never" }), () => q.setSchedule("s", { jitter: "some" }), () => q.setSchedule("s", { paused: 1 }),
    () => q.setSchedule("s", { item: { payload: 7 } }), () => q.setSchedule("s", { item: { payload: "a\ud800" } }), () => q.push("a\ud800"), () => q.setSchedule("s", { item: { headers: { "PQ-Key": "x" } } }), () => q.setSchedule("s", { item: { priority: 1.5 } }),
    () => q.resumeSchedule("s", { from: "then" }), () => q.runSchedule("s", { msgId: "" }), () => q.schedules({ page: 101 }).next(), () => q.schedules({ after: "a.b" }).next(),
  ]) {
    await assert.rejects(wrong, TypeError, `${wrong}`);
  }
  await fails(q.setSchedule("s", { spec: "often" }), BadRequestError, 400);
  await fails(q.setSchedule("s", { spec: "0 0 30 2 *" }), BadRequestError, 400);
  await Promise.all(Array.from({ length: 100 }, (_, i) => q.setSchedule(`s${i}`, { spec: "@every 1s", paused: true })));
  const impatient = new Client(nc, { timeout: patience, retryFor: 1 }).queue(q.name);
  await fails(impatient.setSchedule("more", { spec: "@every 1s" }), BusyError, 429, "schedules");
});
