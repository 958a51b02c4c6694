// What handlers return: the results of their items.
import { test } from "node:test";
import assert from "node:assert/strict";
import { GiveUp, LeaseLostError, TooLargeError } from "pqbridge";
import { answer, client, failure, fake, patience, queue } from "./world.mjs";

/**
 * Has a worker do one item, whose push has asked for its result unless ttl is "". It returns the settlements, which a stand-in
 * answers, and what was reported.
 */
async function work(handler, { ttl = "10m0s", settle = () => answer({}), lease = "1h" } = {}) {
  const [settlements, errors] = [[], []];
  const { client: c } = await fake((verb, _n, m, p) => {
    if (verb.startsWith("jobs.pop.")) return answer({ "PQ-Id": "i", "PQ-Ack": `${p}.jobs.ack.c.t`, ...(ttl && { "PQ-Result-TTL": ttl }) }, "x");
    if (m.string() === "+WPI") return failure(410, "gone");
    settlements.push(Buffer.from(m.data).toString("latin1"));
    return settle(m.string());
  }, { askAgainAfter: patience });
  await c.queue("jobs").consume(handler, { limit: 1, lease, onError: (err, item) => errors.push([item?.id, err]) }).closed;
  return { settlements, errors };
}

const cycle = {};
cycle.again = cycle;

/** What handlers return, and what is kept of it. */
const kept = [
  [new Uint8Array([0, 255, 10]), "\x00\xff\n"],
  [Buffer.from("a b"), "a b"],
  [new Uint8Array(0), ""],
  ["käse", Buffer.from("käse").toString("latin1")],
  ["", ""],
  [{ boards: [12] }, '{"boards":[12]}'],
  [{ json: 1 }, '{"json":1}'],
  [[], "[]"],
  [0, "0"],
  [false, "false"],
  [null, "null"],
  [new Date(0), '"1970-01-01T00:00:00.000Z"'],
];

/** What cannot be kept, and what its item dies of. */
const unkept = [
  [cycle, "Converting circular structure to JSON"],
  [{ n: 1n }, "Do not know how to serialize a BigInt"],
  [1n, "Do not know how to serialize a BigInt"],
  [() => 1, "it is () => 1: expected bytes, a text, or a value that JSON has"],
  [Symbol("s"), "it is Symbol(s): expected bytes, a text, or a value that JSON has"],
  ["\ud800", 'it is "\\ud800": expected no half of a surrogate pair'],
  [{ toJSON: () => { throw "no"; } }, "no"],
];

test("what a handler returns is sent with the acknowledgement", async () => {
  for (const [value, bytes] of kept) {
    for (const handler of [() => value, async () => value]) {
      const { settlements, errors } = await work(handler);
      assert.deepEqual([settlements, errors], [[`+ACK ${bytes}`], []]);
    }
  }
  assert.deepEqual((await work(() => {})).settlements, ["+ACK"]);
});

test("what nobody asks for is neither written nor sent", async () => {
  const unwritable = { toJSON: () => assert.fail("nobody asks") };
  for (const value of [...kept.map(([v]) => v), ...unkept.map(([v]) => v), unwritable, undefined]) {
    const { settlements, errors } = await work(() => value, { ttl: "" });
    assert.deepEqual([settlements, errors], [["+ACK"], []]);
  }
});

test("what a handler has settled stays so", async () => {
  for (const [settle, expected] of [
    [(item) => item.ack({ result: "own" }), "+ACK own"],
    [(item) => item.ack(), "+ACK"],
    [(item) => item.nak({ delay: 5 }), "-NAK 5ms"],
    [(item) => item.term("no wood"), "+TERM no wood"],
  ]) {
    for (const value of ["other", cycle]) {
      const { settlements, errors } = await work(async (item) => {
        await settle(item);
        return value;
      });
      assert.deepEqual([settlements, errors], [[expected], []]);
    }
  }
});

test("a value that cannot be kept ends its item, and is reported", async () => {
  for (const [value, why] of unkept) {
    const { settlements, errors } = await work(() => value);
    assert.equal(settlements.length, 1);
    assert.ok(settlements[0].startsWith(`+TERM the returned value cannot be kept: ${why}`), settlements[0]);
    const [[id, err]] = errors;
    assert.deepEqual([errors.length, id, err instanceof GiveUp, `+TERM ${err.message}`], [1, "i", true, settlements[0]]);
    assert.equal(err.cause instanceof Error ? err.cause.message : err.cause, err.message.slice("the returned value cannot be kept: ".length));
  }
});

test("a value that is too large for the bridge ends its item, and is reported", async () => {
  const { settlements, errors } = await work(() => "long", { settle: (body) => (body === "+ACK long" ? failure(413, "", "a settlement has 4 bytes: allowed are 3") : answer({})) });
  assert.deepEqual(settlements, ["+ACK long", "+TERM the returned value is too large: a settlement has 4 bytes: allowed are 3"]);
  const [[id, err]] = errors;
  assert.deepEqual([errors.length, id, err instanceof GiveUp, err.cause instanceof TooLargeError], [1, "i", true, true]);
});

test("a value that is refused for another reason leaves its item", async () => {
  const { settlements, errors } = await work(() => "x", { settle: () => failure(506) });
  assert.deepEqual([settlements, errors.map(([id, err]) => [id, err.code])], [["+ACK x"], [["i", 506]]]);
});

test("a lease that is lost is acknowledged late, with the value", async () => {
  const late = async (_, signal) => {
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    return "late";
  };
  for (const [settle, expected] of [
    [() => answer({}), []],
    [() => failure(410, "taken"), [["i", "taken"]]],
  ]) {
    const { settlements, errors } = await work(late, { settle, lease: 30 });
    assert.deepEqual([settlements, errors.map(([id, err]) => [id, err instanceof LeaseLostError && err.reason])], [["+ACK late"], expected]);
  }
});

test("the value of a handler that returns within the grace, or behind it, is kept", async () => {
  const q = queue();
  for (const behind of [false, true]) {
    const { id } = await q.push("x", { resultTtl: "1h" });
    const [began, finish] = [resolvers(), resolvers()];
    const consumer = q.consume(async (_, signal) => {
      began.resolve();
      await (behind ? new Promise((resolve) => signal.addEventListener("abort", resolve)) : finish.promise);
      return { behind };
    });
    await began.promise;
    const drained = consumer.drain({ grace: behind ? 1 : "1h" });
    finish.resolve();
    await drained;
    assert.deepEqual((await q.result(id)).json(), { behind });
  }
});

/** A promise, and what settles it. */
function resolvers() {
  let resolve;
  const promise = new Promise((settle) => (resolve = settle));
  return { promise, resolve };
}

test("values go beside the bundles of other settlements", async () => {
  const [settlements, count, asks] = [[], 9, new Set(["3", "5"])];
  const { client: c } = await fake((verb, n, m, p) => {
    if (n > 1 && verb.startsWith("jobs.pop.")) return undefined;
    if (n > 1) {
      settlements.push([verb.slice("jobs.ack.".length), m.string()]);
      return answer({}, m.headers?.has("PQ-Bundle") ? "+OK\n".repeat(Number(m.headers.get("PQ-Bundle"))) : "");
    }
    const items = Array.from({ length: count }, (_, i) => answer({ "PQ-Id": `${i}`, "PQ-Ack": `${p}.jobs.ack.c.${i}`, ...(asks.has(`${i}`) && { "PQ-Result-TTL": "1h0m0s" }) }));
    return [...items, answer({ Status: "204", Description: "EOB" })];
  }, { askAgainAfter: patience });
  await c.queue("jobs").consume((item) => `of ${item.id}`, { limit: count, concurrency: count, onError: (err) => assert.fail(err) }).closed;
  const alone = settlements.filter(([, body]) => body.includes("of "));
  assert.deepEqual(alone, [["c.3", "+ACK of 3"], ["c.5", "+ACK of 5"]]);
  const others = settlements.filter(([, body]) => !body.includes("of "));
  assert.ok(others.some(([to, body]) => to === "bundle.settle" && body.split("\n").length > 2), `${others}`);
  const tokens = others.flatMap(([to, body]) => (to === "bundle.settle" ? [...body.matchAll(/\.ack\.c\.(\d) \+ACK\n/g)].map(([, token]) => token) : [to.slice("c.".length)]));
  assert.deepEqual(tokens.sort(), [..."0124678"]);
});

test("a caller hears what its worker returns", async () => {
  const q = queue();
  const { max_payload: most } = client.connection.info;
  const errors = [];
  const values = new Map([...kept, ...unkept].map(([value], i) => [`${i}`, value]));
  values.set("huge", "x".repeat(most)).set("large", "x".repeat(most - 100)).set("nothing", undefined);
  const consumer = q.consume((item) => values.get(item.string()), { concurrency: 4, onError: (err, item) => errors.push([item.string(), err.message]) });
  const found = new Map(await Promise.all([...values.keys()].map(async (what) => [what, await q.pushAndWait(what, { wait: patience })])));
  await consumer.drain();
  for (const [i, [, bytes]] of kept.entries()) {
    const { outcome, body } = found.get(`${i}`);
    assert.deepEqual([outcome, Buffer.from(body).toString("latin1")], ["done", bytes]);
  }
  for (const [i, [, why]] of unkept.entries()) {
    const { outcome, reason } = found.get(`${kept.length + i}`);
    assert.deepEqual([outcome, reason.startsWith(`the returned value cannot be kept: ${why}`)], ["dead", true], reason);
  }
  for (const what of ["huge", "large"]) {
    const { outcome, reason, deliveries } = found.get(what);
    assert.deepEqual([outcome, deliveries], ["dead", 1]);
    assert.match(reason, /^the returned value is too large: /);
  }
  assert.match(found.get("huge").reason, /the NATS server takes/);
  assert.doesNotMatch(found.get("large").reason, /the NATS server takes/);
  assert.deepEqual([found.get("nothing").outcome, found.get("nothing").body.length], ["done", 0]);
  assert.equal(errors.length, unkept.length + 2);
});
