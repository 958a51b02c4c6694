// Links: what gives the items of a queue to another store.
import { test } from "node:test";
import assert from "node:assert/strict";
import { BadRequestError, ConflictError, ForbiddenError, NotFoundError, UnknownResultError } from "pqbridge";
import { answer, client, fails, fake, lossy, nc, patience, queue } from "./world.mjs";

const to = "another-store";

/** The answer to a taker: the number of its batch, and the id of that. */
async function taken(q, done, batch) {
  const m = await nc.request(`pq.${q.name}.link.hub`, JSON.stringify({ taker: to, done, batch }), { timeout: patience });
  return m.headers.get("PQ-Link-Batch").split(" ");
}

test("a link is made, shown, paused and removed", async () => {
  const q = queue();
  await fails(q.link("hub"), NotFoundError, 404, "unknown");
  const made = await q.setLink("hub", { to });
  assert.deepEqual(made, { name: "hub", to, paused: false, state: "starting", batch: 0, held: 0, since: undefined, given: 0 });
  assert.deepEqual(await q.link("hub"), made);
  assert.deepEqual(await q.setLink("hub", { paused: true }), { ...made, paused: true, state: "paused" });
  assert.equal((await q.resumeLink("hub")).state, "starting");
  assert.equal((await q.pauseLink("hub")).state, "paused");
  for (const name of ["a", "b", "z"]) await q.setLink(name, { to });
  const seen = [];
  for await (const { name, state } of q.links({ page: 2 })) seen.push([name, state]);
  assert.deepEqual(seen, [["a", "starting"], ["b", "starting"], ["hub", "paused"], ["z", "starting"]]);
  for await (const { name } of q.links({ after: "hub" })) assert.equal(name, "z");
  assert.equal(await q.deleteLink("hub"), 0);
  await fails(q.deleteLink("hub"), NotFoundError, 404, "unknown");
});

test("what a link holds is shown as held, and returns by force", async () => {
  const q = queue();
  await q.setLink("hub", { to });
  const { id } = await q.push("a");
  assert.equal((await q.get(id)).held, false);
  const [, first] = await taken(q, 0);
  const held = await q.get(id);
  assert.deepEqual([held.held, held.state, held.holder, held.leaseExpires, held.headers], [true, "leased", "link:hub", undefined, Object.create(null)]);
  for await (const one of q.list({ state: "leased" })) assert.deepEqual([one.id, one.held, one.due], [id, true, undefined]);
  const { leased, held: all } = await q.info();
  assert.deepEqual([leased, all], [1, 1]);
  const shown = await q.link("hub");
  assert.deepEqual([shown.state, shown.batch, shown.held, shown.given], ["running", 1, 1, 0]);
  assert.ok(Math.abs(Date.now() - shown.since.getTime()) < patience);
  await fails(q.remove(id), ConflictError, 409, "held");
  await q.push("b");
  await taken(q, 1, first);
  assert.equal((await q.link("hub")).given, 1);
  await fails(q.deleteLink("hub"), ConflictError, 409, "held");
  assert.equal(await q.deleteLink("hub", { force: true }), 1);
  assert.equal((await q.info()).held, undefined);
  assert.equal((await q.pop()).string(), "b");
});

// The remote is not there, so it stays as it was made.
test("a source names a queue and its link", async () => {
  const q = client.queue("linked");
  const edge = { remote: "self", queue: "edge7.orders", link: "hub" };
  const made = await q.setSource("edge", { ...edge, batch: 7, paused: true });
  assert.deepEqual([made.stream, made.queue, made.link, made.mode, made.start, made.filter, made.map, made.batch], ["", "edge7.orders", "hub", "", undefined, [], {}, 7]);
  assert.deepEqual(await q.source("edge"), made);
  for await (const one of q.sources()) assert.deepEqual(one, made);
  await fails(q.setSource("edge", { link: "other" }), BadRequestError, 400);
  await fails(client.queue("mail").setSource("edge", edge), ForbiddenError, 403, "");
  await q.deleteSource("edge");
});

test("a removal is not repeated, and a resume is", async () => {
  const q = queue();
  await q.setLink("hub", { to, paused: true });
  const { client: c } = await lossy();
  assert.equal((await c.queue(q.name).resumeLink("hub")).paused, false);
  const { client: d } = await lossy({ timeout: 500 });
  await fails(d.queue(q.name).deleteLink("hub"), UnknownResultError, 504);
});

test("wrong links are refused", async () => {
  const q = queue();
  const wrong = [
    () => q.link("a.b"), () => q.link(""), () => q.setLink("hub"), () => q.setLink("hub", { too: to }), () => q.setLink("hub", { paused: 1 }), () => q.deleteLink("hub", { force: "yes" }),
    () => q.resumeLink("hub", { accept: true }), () => q.links({ page: 101 }).next(), () => q.links({ after: "a.b" }).next(),
  ];
  for (const call of wrong) await fails((async () => call())(), TypeError);
  await fails(q.setLink("hub", {}), BadRequestError, 400);
  await q.setLink("hub", { to });
  await fails(q.setLink("hub", { to: "other" }), BadRequestError, 400);
  const { client: c } = await fake(() => answer({}, JSON.stringify({ name: "hub", to })));
  await fails(c.queue("q").link("hub"), UnknownResultError, 504);
});
