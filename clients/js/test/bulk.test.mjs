// Operations on all items that fit.
import { test } from "node:test";
import assert from "node:assert/strict";
import { BadRequestError, ForbiddenError } from "pqbridge";
import { answer, client, fails, failure, fake, queue } from "./world.mjs";

test("all items that fit are changed, page after page", async () => {
  const q = queue();
  const dead = client.queue(`${q.name}-dead`);
  await q.pushMany(Array.from({ length: 7 }, (_, priority) => ({ payload: "x", priority, headers: { Season: "autumn" } })));
  const where = { header: { Season: "aut*" }, max: 4n, pushedBefore: new Date("2099-01-01") };
  assert.deepEqual(await q.bulk("move", { where, priority: 9, dryRun: true, page: 2 }).then(({ looked, ...r }) => r), { done: 5, atLeast: false, full: false, next: "" });
  assert.equal((await q.bulk("move", { where, priority: 9, page: 2 })).done, 5);
  const priorities = [];
  for await (const { priority } of q.list()) priorities.push(priority);
  assert.deepEqual(priorities, [5, 6, 9, 9, 9, 9, 9]);
  await q.popMany(3, { lease: "1h", holder: "bob" });
  assert.equal((await q.bulk("revoke", { where: { holder: "bob" }, delay: 0, reason: "bob is ill" })).done, 3);
  for (const item of await q.popMany(3, { lease: "1h" })) await item.term("timeout of it");
  for await (const { cause } of dead.list()) assert.equal(cause, "timeout of it");
  await q.configure({ max_length: 6 });
  const stopped = await dead.bulk("requeue", { where: { cause: "timeout*" }, to: q.name, spread: "1s" });
  assert.deepEqual([stopped.done, stopped.full, stopped.next !== ""], [2, true, true]);
  await q.configure({ max_length: 0 });
  assert.equal((await dead.bulk("requeue", { where: { cause: "timeout*" }, after: stopped.next })).done, 1);
  assert.equal((await dead.bulk("remove", { all: true })).done, 0);
  const err = await fails(q.bulk("remove", { where: {} }), BadRequestError, 400);
  assert.equal(err.bulk.done, 0);
  for (const wrong of [() => q.bulk("push", { all: true }), () => q.bulk(undefined, {}), () => q.bulk("remove", { where: { colour: "red" } }), () => q.bulk("remove", { all: 1 }), () => q.bulk("move", { all: true, priority: 1.5 })]) {
    await assert.rejects(wrong, TypeError, `${wrong}`);
  }
});

test("a page without an answer is asked for again, and an error says how far it came", async () => {
  const answers = ['{"done":0,"looked":0,"next":"a"}', undefined, '{"done":2,"looked":5,"next":"b"}'];
  const { client: c, requests } = await fake((_verb, n) => (n > answers.length ? failure(403) : answers[n - 1] && answer({}, answers[n - 1])));
  const err = await fails(c.queue("jobs").bulk("remove", { all: true }), ForbiddenError, 403);
  assert.deepEqual(requests.map(({ verb, body }) => [verb, JSON.parse(body)]), [
    ["jobs.admin.remove", { all: true, limit: 0 }], ["jobs.admin.remove", { all: true, after: "a" }], ["jobs.admin.remove", { all: true, after: "a" }], ["jobs.admin.remove", { all: true, after: "b" }],
  ]);
  assert.deepEqual(err.bulk, { done: 2, looked: 5, atLeast: true, full: false, next: "b" });
});
