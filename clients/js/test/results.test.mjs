// Results: what became of an item, asked for and waited for.
import { test } from "node:test";
import assert from "node:assert/strict";
import { BadRequestError, BusyError, Client, ConflictError, ForbiddenError, NoResultYetError, NotFoundError, PQError, SettledError, TooLargeError, UnavailableError, UnknownResultError } from "pqbridge";
import { answer, client, failure, fails, fake, lossy, nc, patience, pushed, queue, slow, until } from "./world.mjs";

const at = "2030-01-02T03:04:05.006Z";
const done = answer({ "PQ-Outcome": "done", "PQ-Finished-At": at, "PQ-Deliveries": "1" }, "12 boards");

/** A lease whose settlements a stand-in answers. */
const leased = ({ client, prefix }) => client.attach(`${prefix}.jobs.ack.c.t`);

const waits = (requests) => requests.map(({ headers }) => headers.get("PQ-Wait"));

test("a caller waits for its worker", async () => {
  const q = queue();
  const consumer = q.consume((item) => item.ack({ result: new Uint8Array([...item.data, 0, 255, 10]) }));
  const found = await q.pushAndWait("ab", { wait: patience, priority: 3 });
  await consumer.drain();
  assert.deepEqual([found.outcome, [...found.body], found.dropped, found.deliveries, found.next], ["done", [97, 98, 0, 255, 10], false, 1, ""]);
  assert.ok(Math.abs(found.finishedAt - Date.now()) < patience, `${found.finishedAt}`);
});

test("what becomes of an item", async () => {
  const [q, two] = [queue(), queue()];
  await q.configure({ hand_over: two.name });
  let { id } = await q.push("x", { resultTtl: "1h" });
  const err = await fails(q.result(id), NoResultYetError, 404, "pending");
  assert.deepEqual([err.op, err.queue, err.id, err.cause], ["result", q.name, id, undefined]);
  assert.equal(err.message, `result ${q.name}: job ${id} goes on: ask again with result (404)`);
  assert.equal((await fails(q.result(id, { wait: 10 }), NoResultYetError, 408)).id, id);
  assert.equal(err.progress, "");
  const item = await q.pop({ lease: "1m" });
  await item.report("3 of 9, zu spät");
  assert.equal((await fails(q.result(id), NoResultYetError, 404, "pending")).progress, "3 of 9, zu spät");
  await item.ack({ result: { json: { boards: 12 } } });
  await fails(item.ack({ result: "again" }), SettledError);
  assert.deepEqual((await q.result(id)).json(), { boards: 12 });
  assert.equal((await q.result(id, { wait: "1h" })).string(), '{"boards":12}');

  ({ id } = await q.push("x", { resultTtl: "1h" }));
  await (await q.pop({ lease: "1m" })).term("no wood");
  const letter = await client.queue(`${q.name}-dead`).peek();
  const dead = await q.result(id);
  assert.deepEqual([dead.outcome, dead.body.length, dead.reason, dead.cause, dead.deadLetter, dead.nextId], ["dead", 0, "no wood", "no wood", letter.queue, letter.id]);

  await q.configure({ max_deliveries: 1 });
  ({ id } = await q.push("x", { resultTtl: "1h" }));
  await (await q.pop({ lease: "1m" })).nak({ reason: "no nails" });
  const failed = await q.result(id);
  assert.deepEqual([failed.outcome, failed.reason, failed.cause], ["dead", "max_deliveries", "no nails"]);

  ({ id } = await q.push("x", { resultTtl: "1h" }));
  const after = await (await q.pop({ lease: "1m" })).handOver(two, "y");
  const over = await q.result(id);
  assert.deepEqual([over.outcome, over.next, over.nextId], ["handed_over", two.name, after.id]);

  ({ id } = await q.push("x"));
  await fails(q.result(id), ConflictError, 409, "unkept");
  await (await q.pop({ lease: "1m" })).ack({ result: "for nobody" });
  await fails(q.result(id, { wait: patience }), NotFoundError, 404, "unknown");

  ({ id } = await q.push("x", { resultTtl: "1h" }));
  await q.configure({ result_bytes: 325 });
  await (await q.pop({ lease: "1m" })).ack({ result: "123456" });
  const dropped = await q.result(id);
  assert.deepEqual([dropped.outcome, dropped.body.length, dropped.dropped], ["done", 0, true]);
});

test("a push asks for a result where there is room for one", async () => {
  const q = queue();
  const [one, two] = [await q.push("x"), await q.push("y", { resultTtl: "90s" })];
  assert.deepEqual([(await q.get(one.id)).resultTtl, (await q.get(two.id)).resultTtl], [0, 600_000]);
  const kept = [];
  for await (const listed of q.list()) kept.push(listed.resultTtl);
  assert.deepEqual(kept, [0, 600_000]);
  await q.configure({ result_bytes: 300 });
  const impatient = new Client(nc, { retryFor: 1 }).queue(q.name);
  await fails(impatient.push("b", { resultTtl: "1h" }), BusyError, 429, "results");
  const err = await fails(impatient.pushMany([{ payload: "b" }, { payload: "c", resultTtl: 3600e3 }]), BusyError, 429, "results");
  assert.equal(err.item, 1);
});

test("another call with the id waits on", async () => {
  const q = queue();
  const { id } = await fails(q.pushAndWait("x", { wait: 10, msgId: "m" }), NoResultYetError, 408);
  const item = await q.pop({ lease: "1m" });
  assert.equal(id, item.id);
  await item.ack({ result: "done" });
  assert.equal((await q.pushAndWait("x", { wait: patience, msgId: "m" })).string(), "done");
  assert.equal((await q.result(id)).string(), "done");
});

/** A queue whose pushes are done, and whose results a stand-in answers. Then its client has a timeout, if one is given. */
async function asking(respond, timeout, options) {
  const { client: c } = await fake((verb) => {
    if (!verb.startsWith("jobs.push")) return respond();
    c.patience.timeout = timeout ?? c.patience.timeout;
    return pushed({ id: "seven" });
  }, options);
  return c.queue("jobs");
}

/** Long enough for a message to leave. */
const brief = 200 * slow;

test("behind a push that was done the job goes on, whatever the wait ends with", async () => {
  for (const [respond, code, reason, cause, timeout] of [
    [() => failure(408), 408, ""],
    [() => undefined, 504, "", UnknownResultError, brief],
    [() => failure(503), 503, "", UnavailableError],
    [() => failure(429, "busy"), 429, "busy", BusyError],
    [() => answer({}, "hello"), 504, "", UnknownResultError],
  ]) {
    const q = await asking(respond, timeout, { retryFor: 1 });
    const err = await fails(q.pushAndWait("x", { wait: 1 }), NoResultYetError, code, reason);
    assert.deepEqual([err.id, err.queue, err.op, err instanceof PQError], ["seven", "jobs", "result", true]);
    assert.equal(err.message, `result jobs: job seven goes on: ask again with result (${code})`);
    if (cause) assert.ok(err.cause instanceof cause, `${err.cause}`);
    else assert.equal(err.cause, undefined);
  }
});

test("what an answer says of the item, or of the user, is its own error", async () => {
  for (const [code, reason, type] of [[404, "unknown", NotFoundError], [409, "unkept", ConflictError], [403, "", ForbiddenError], [413, "", TooLargeError]]) {
    const q = await asking(() => failure(code, reason));
    await fails(q.pushAndWait("x", { wait: patience }), type, code, reason);
    await fails(q.result("seven"), type, code, reason);
  }
});

test("a push that fails, or whose answer is lost, keeps its own error", async () => {
  for (const [respond, type, code, reason, timeout] of [
    [() => failure(429, "results"), BusyError, 429, "results"],
    [() => failure(503), UnavailableError, 503],
    [() => undefined, UnknownResultError, 504, "", brief],
  ]) {
    const { client: c } = await fake(respond, { retryFor: 1 });
    const err = await fails(c.queue("jobs").pushAndWait("x", { wait: patience, timeout }), type, code, reason);
    assert.deepEqual([err.op, err.id], ["push", undefined]);
  }
});

test("who asks by an id hears what became of the question", async () => {
  const q = await asking(() => undefined);
  await fails(q.result("seven", { timeout: brief }), UnknownResultError, 504);
});

test("an abort keeps its reason", async () => {
  const cut = new AbortController();
  const q = await asking(() => void cut.abort(new Error("enough")));
  const err = await fails(q.pushAndWait("x", { wait: patience, signal: cut.signal }), UnknownResultError, 504);
  assert.equal(err.cause, cut.signal.reason);
});

test("wrong arguments send nothing", async () => {
  const world = await fake(() => undefined);
  const [q, item] = [world.client.queue("jobs"), leased(world)];
  for (const [act, says] of [
    [() => q.result("a.b"), /./],
    [() => q.result("i", { wait: "soon" }), /wait is "soon": expected/],
    [() => q.result("i", { lease: 1 }), /result has no option "lease": expected wait, timeout, signal/],
    [() => q.pushAndWait("x", {}), /wait is undefined: expected/],
    [() => q.pushAndWait("x", { wait: 1, resultTtl: "200h" }), /resultTtl is "200h"/],
    [() => q.pushAndWait("x", { wait: 1, lease: 1 }), /pushAndWait has no option "lease"/],
    [() => item.ack({ result: 12 }), /the result is 12: expected a string/],
  ]) {
    await assert.rejects(act(), (err) => err instanceof TypeError && says.test(err.message));
  }
  assert.deepEqual([world.requests, item.settled], [[], false]);
});

test("what it asks for", async () => {
  const { client: c, requests } = await fake((verb) => (verb.startsWith("jobs.push") ? pushed() : done));
  const q = c.queue("jobs");
  const found = await q.pushAndWait({ json: [1] }, { wait: 5000, key: "k" });
  assert.deepEqual([found.finishedAt.toISOString(), found.string()], [at, "12 boards"]);
  const [push, asked] = requests;
  assert.deepEqual([push.body, push.headers.get("PQ-Key"), push.headers.get("PQ-Result-TTL")], ["[1]", "k", "600000ms"]);
  assert.deepEqual([asked.verb, asked.body, asked.headers.keys()], ["jobs.result.i", "", ["PQ-Wait"]]);
  await q.result("i");
  assert.equal(requests[2].headers, undefined);
});

test("answers that cannot be read", async () => {
  for (const fields of [{ "PQ-Finished-At": "soon" }, { "PQ-Deliveries": "many" }, { "PQ-Outcome": undefined }]) {
    const all = { "PQ-Outcome": "done", "PQ-Finished-At": at, "PQ-Deliveries": "1", ...fields };
    const { client: c } = await fake(() => answer(Object.fromEntries(Object.entries(all).filter(([, value]) => value))), { timeout: 100 * slow });
    const err = await fails(c.queue("jobs").result("i"), UnknownResultError);
    assert.match(err.message, /cannot be read/);
  }
});

test("a wait goes on after what ends a request: 408 of a bridge that does not see the client, a lost answer, a restart", async () => {
  const answers = [failure(408), undefined, failure(503), failure(409), done];
  const { client: c, requests } = await fake((verb, n) => answers[n - 1], { askAgainAfter: 100 * slow });
  assert.equal((await c.queue("jobs").result("i", { wait: 500 * slow })).string(), "12 boards");
  assert.equal(requests.length, 5);
  assert.ok(waits(requests).every((wait) => wait !== ""), `${waits(requests)}`);
  assert.equal(new Set(requests.map(({ reply }) => reply)).size, 5);
});

test("a long wait takes several requests, and one ends", async () => {
  const { client: c, requests } = await fake((verb, n) => (n === 1 ? failure(408) : done));
  await c.queue("jobs").result("i", { wait: "10h" });
  assert.deepEqual(waits(requests), ["10000ms", "10000ms"]);
  const { client: never } = await fake(() => failure(408));
  const err = await fails(never.queue("jobs").result("i", { wait: 100 }), NoResultYetError, 408);
  assert.equal(err.op, "result");
});

test("a wait outlives its connection", async () => {
  const { client: c, requests, nc } = await fake((verb, n) => (n === 1 ? undefined : done), { askAgainAfter: patience });
  const asked = c.queue("jobs").result("i", { wait: "1h" });
  await until("it was sent", () => requests.length === 1);
  await nc.reconnect();
  assert.equal((await asked).string(), "12 boards");
});

test("nobody listens for a wait that was given up", async () => {
  const { client: c, requests, nc, bridge } = await fake(() => undefined);
  const cut = new AbortController();
  const asked = c.queue("jobs").result("i", { wait: "1h", signal: cut.signal });
  await until("it was sent", () => requests.length === 1);
  cut.abort(new Error("enough"));
  await assert.rejects(asked);
  await nc.flush();
  await assert.rejects(bridge.request(requests[0].reply, "", { timeout: patience }), /no responders/);
});

test("an acknowledgement whose answer is lost has kept its result", async () => {
  const { client: c, lost } = await lossy();
  const q = queue();
  const { id } = await q.push("x", { resultTtl: "1h" });
  await c.attach((await q.pop({ lease: "1m" })).ackSubject).ack({ result: "done" });
  assert.deepEqual(lost, ["ack"]);
  assert.equal((await q.result(id)).string(), "done");
});

test("a result has a message of its own", async () => {
  const bodies = [];
  const { client: c, prefix, requests } = await fake((verb, n, m) => {
    bodies.push(m.string());
    return answer({}, m.headers?.has("PQ-Bundle") ? "+OK\n".repeat(Number(m.headers.get("PQ-Bundle"))) : "");
  });
  await c.attach(`${prefix}.jobs.ack.c.first`).ack();
  await Promise.all([..."0123456"].map((n) => c.attach(`${prefix}.jobs.ack.c.${n}`).ack(n === "3" ? { result: "three" } : {})));
  assert.deepEqual(requests.filter(({ verb }) => verb === "jobs.ack.c.3").map(({ body }) => body), ["+ACK three"]);
  assert.deepEqual(bodies.filter((body) => body.includes("three")), ["+ACK three"]);
  assert.ok(requests.length < 8, `${requests.length}`);
});

test("a result that is too large ends no lease", async () => {
  const q = queue();
  await q.push("x");
  const item = await q.pop({ lease: "1m" });
  await fails(item.ack({ result: "x".repeat(client.connection.info.max_payload - 100) }), TooLargeError, 413);
  await item.extend();
  await item.ack({ result: "short" });
});

test("a refused result is an error, and is not sent without it", async () => {
  for (const [type, code, text] of [[BadRequestError, 400, "a settlement is followed by"], [TooLargeError, 413, "a settlement has 9000 bytes: allowed are 8192"]]) {
    const world = await fake((verb, n, m) => (m.string().includes(" ") ? failure(code, "", text) : answer({})));
    for (let i = 0; i < 2; i++) {
      const item = leased(world);
      assert.equal((await fails(item.ack({ result: "x" }), type, code)).text, text);
      assert.equal(item.settled, false);
    }
    assert.deepEqual(world.requests.map(({ body }) => body), ["+ACK x", "+ACK x"]);
  }
});
