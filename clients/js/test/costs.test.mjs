// What deliveries cost: the guess of a push, and what a worker says of it.
import { test } from "node:test";
import assert from "node:assert/strict";
import { EmptyError, GiveUp, LeaseLostError, NotLeasedError, SettledError } from "pqbridge";
import { answer, client, failure, fails, fake, fresh, patience, pushed, queue, slow, until } from "./world.mjs";

/** A rate that gives nothing back while a test runs. */
const rate = "100/24h";

/** The frames of a body: headers and payload of each. */
function frames(body) {
  const found = [];
  for (let rest = Buffer.from(body); rest.length > 0; ) {
    const line = rest.indexOf("\n");
    const [headers, payload] = rest.toString("utf8", 0, line).split(" ").map(Number);
    const at = line + 1 + headers;
    found.push([rest.toString("utf8", line + 1, at), rest.toString("utf8", at, at + payload)]);
    rest = rest.subarray(at + payload + 1);
  }
  return found;
}

/** The settlements of a message: the ends of their subjects, their words and costs. */
const parts = (body) => frames(body).map(([headers, word]) => [/^PQ-Ack: .*\.(t\d)\n/.exec(headers)[1], word, /^PQ-Ack: .*\n(?:PQ-Cost: (\d+)\n)?$/.exec(headers)[1]]);

const sizeOf = ({ headers }) => Number(headers?.get("PQ-Bundle") || 0);
const costOf = ({ headers }) => headers?.get("PQ-Cost") ?? "";

/** The settlements that went alone. */
const alone = (requests) => requests.filter((r) => r.verb.includes(".ack.") && !sizeOf(r)).map((r) => [r.body, costOf(r)]);

/** Leases whose settlements a stand-in answers, and what it has heard. */
async function leased(n, refuse) {
  const { client: c, prefix, requests } = await fake((_verb, _n, m) => {
    const size = sizeOf(m);
    if (size && refuse) return failure(413);
    if (!size) return m.string().startsWith("+NXT") ? failure(404, "empty") : answer({});
    if (!m.headers.get("PQ-Frames")) return answer({}, "+OK\n".repeat(size));
    const lines = parts(m.string()).map(([token, word]) => (token === "t4" ? "-ERR 410 expired too late" : word === "+WPI" ? "+OK 2030-01-01T00:00:00Z" : "+OK"));
    return answer({}, `${lines.join("\n")}\n`);
  }, { askAgainAfter: patience });
  const items = Array.from({ length: n }, (_, i) => c.attach(`${prefix}.jobs.ack.c.t${i}`));
  await c.queue("jobs").pop().catch(() => {}); // until something was answered, nothing goes at once
  requests.length = 0;
  return { c, items, requests };
}

test("each settlement says what its delivery has cost", async () => {
  for (const [end, word, cost] of [
    [(i) => i.ack(), "+ACK", "7"],
    [(i) => i.ack({ result: "r" }), "+ACK r", "7"],
    [(i) => i.nak(), "-NAK", "7"],
    [(i) => i.nak({ delay: "1s", reason: "r" }), '-NAK {"delay":1000000000,"reason":"r"}', "7"],
    [(i) => i.term("r"), "+TERM r", "7"],
    [(i) => i.giveBack("r"), "+BACK r", "7"],
    [(i) => i.giveBack(), "+BACK", ""],
    [(i) => i.giveBack("  "), "+BACK", ""],
    [(i) => i.extend(), "+WPI", "7"],
    [(i) => i.report("half"), "+WPI half", "7"],
  ]) {
    const { items: [item, other], requests } = await leased(2);
    item.spent(9);
    item.spent(7);
    assert.deepEqual(requests, []);
    await end(item);
    await end(other);
    assert.deepEqual(alone(requests), [[word, cost], [word, ""]]);
  }
  const { items: [a, b, c, d], requests } = await leased(4);
  a.spent(7);
  assert.deepEqual([await a.ackNext(), await b.ackNext()], [null, null]);
  c.spent(0);
  await c.ack();
  d.spent(1_000_000);
  await d.ack();
  assert.deepEqual(alone(requests).map(([word, cost]) => [word.slice(0, 4), cost]), [["+NXT", "7"], ["+NXT", ""], ["+ACK", "0"], ["+ACK", "1000000"]]);
});

test("lines have no room for it, so a message is framed, and each settlement keeps its result", async () => {
  const { items, requests } = await leased(10);
  for (const [i, item] of items.entries()) if (i !== 3) item.spent(i);
  const results = await Promise.allSettled([
    items[0].ack(), items[1].ack(), items[2].ack(), items[3].nak({ reason: "r" }), items[4].ack(), items[5].extend(), items[6].giveBack(), items[7].giveBack("why"), items[8].term("two\nlines"), items[9].ack({ result: "r" }),
  ]);
  assert.deepEqual(results.map(({ reason }) => reason?.constructor), [...Array(4).fill(undefined), LeaseLostError, ...Array(5).fill(undefined)]);
  assert.equal(items[5].leaseExpires.getUTCFullYear(), 2030);
  const together = requests.filter(sizeOf);
  assert.deepEqual(together.map((r) => [sizeOf(r), r.headers.get("PQ-Frames"), costOf(r)]), [[6, "true", ""]]);
  assert.deepEqual(parts(together[0].body), [
    ["t2", "+ACK", "2"], ["t3", '-NAK {"reason":"r"}', undefined], ["t4", "+ACK", "4"], ["t5", "+WPI", "5"], ["t6", "+BACK", undefined], ["t7", "+BACK why", "7"],
  ]);
  assert.deepEqual(alone(requests).toSorted(), [["+ACK r", "9"], ["+ACK", "0"], ["+ACK", "1"], ["+TERM two\nlines", "8"]]);
});

test("a message has lines where nobody says it", async () => {
  const { items, requests } = await leased(6);
  items[2].spent(1);
  await Promise.all(items.map((item) => item.giveBack()));
  const [together] = requests.filter(sizeOf);
  assert.deepEqual([together.headers.get("PQ-Frames"), together.body.split("\n").length], ["", 5]);
});

test("many acknowledgements say it", async () => {
  const { c, items, requests } = await leased(6);
  items[1].spent(0);
  const errors = await c.queue("jobs").ackMany(items);
  assert.deepEqual(errors.map((err) => err?.reason ?? ""), ["", "", "", "", "expired", ""]);
  assert.deepEqual(requests.map((r) => [sizeOf(r), r.headers.get("PQ-Frames")]), [[6, "true"]]);
  assert.deepEqual(parts(requests[0].body), items.map((_, i) => [`t${i}`, "+ACK", i === 1 ? "0" : undefined]));
});

test("what goes alone after a message that was refused says it", async () => {
  const { items, requests } = await leased(5, true);
  for (const [i, item] of items.entries()) item.spent(i);
  await Promise.all(items.map((item) => item.ack()));
  assert.equal(requests.filter(sizeOf).length, 1);
  assert.deepEqual(alone(requests).map(([, cost]) => cost).toSorted(), ["0", "1", "2", "3", "4"]);
  const away = await fake((_verb, _n, m) => (sizeOf(m) ? answer({}, "-ERR 503 - away\n+OK") : answer({})), { askAgainAfter: patience });
  const two = ["t0", "t1"].map((token) => away.client.attach(`${away.prefix}.jobs.ack.c.${token}`));
  two[0].spent(8);
  assert.deepEqual(await away.client.queue("jobs").ackMany(two), [null, null]);
  assert.deepEqual(alone(away.requests), [["+ACK", "8"]]);
});

test("wrong costs are refused before anything is sent", async () => {
  const { c, items: [item], requests } = await leased(1);
  const q = c.queue("jobs");
  for (const wrong of [-1, 1_000_001, 1.5, "5", true, null, undefined, 5n, NaN]) {
    assert.throws(() => item.spent(wrong), { name: "TypeError", message: /^the cost is .*: expected an integer from 0 to 1000000$/ });
  }
  for (const cost of [0, -1, 1_000_001, 1.5, "5", null]) {
    for (const send of [() => q.push("x", { cost }), () => q.pushMany([{ payload: "x", cost }]), () => q.setSchedule("s", { item: { cost } })]) {
      await assert.rejects(send, { name: "TypeError", message: /cost is .*: expected an integer from 1 to 1000000$/ });
    }
  }
  assert.deepEqual(requests, []);
  await item.ack();
  assert.throws(() => item.spent(1), SettledError);
  const bare = queue();
  await bare.push("x");
  const popped = await bare.pop();
  assert.throws(() => popped.spent(1), NotLeasedError);
});

test("pushes say it", async () => {
  const { client: c, requests } = await fake((_verb, _n, m) => pushed(sizeOf(m) ? { items: [{ seq: 1, id: "a", priority: 0 }, { seq: 2, id: "b", priority: 0 }] } : {}), { askAgainAfter: patience });
  const q = c.queue("jobs");
  await q.push("x", { cost: 1 });
  await q.push("x");
  await q.pushMany([{ payload: "x", cost: 1_000_000 }, { payload: "y" }]);
  assert.deepEqual(requests.slice(0, 2).map(costOf), ["1", ""]);
  assert.deepEqual(frames(requests[2].body).map(([headers]) => headers), ["PQ-Cost: 1000000\n", ""]);
});

/** Has a handler work on one item, and returns what settles it. */
async function work(handler, lease = "1h") {
  const heard = [];
  const { client: c } = await fake((verb, _n, m, p) => {
    if (verb.startsWith("jobs.pop.")) return answer({ "PQ-Id": "i", "PQ-Ack": `${p}.jobs.ack.c.t`, "PQ-Cost": "60" }, "x");
    heard.push([m.string(), costOf(m)]);
    return answer({});
  }, { askAgainAfter: patience });
  await c.queue("jobs").consume((item) => handler(item, heard), { limit: 1, lease, onError: () => {} }).closed;
  return heard;
}

test("what a handler says goes with its settlement", async () => {
  for (const [handler, word, cost] of [
    [(item) => item.spent(item.cost + 1), "+ACK", "61"],
    [(item) => { item.spent(3); throw new Error("no"); }, "-NAK", "3"],
    [(item) => { item.spent(4); throw new GiveUp("no"); }, "+TERM", "4"],
  ]) {
    assert.deepEqual((await work(handler)).map(([sent, ...said]) => [sent.split(" ")[0], ...said]), [[word, cost]]);
  }
});

test("automatic extensions say it, so it is reserved even if the worker dies", async () => {
  const heard = await work(async (item, sent) => {
    for (const cost of [5, 8]) {
      item.spent(cost);
      await until("the lease was extended", () => sent.some(([word, said]) => word === "+WPI" && said === `${cost}`));
    }
    item.spent(9);
  }, 1500 * slow);
  assert.deepEqual(heard.at(-1), ["+ACK", "9"]);
});

/** A queue with items of a key, which each cost 20. */
async function costly(n) {
  const q = queue();
  await q.configure({ key_cost_rate: rate });
  await q.pushMany(Array.from({ length: n }, (_, i) => ({ payload: `${i}`, key: "ann", cost: 20, resultTtl: "1h" })));
  return q;
}

const tokens = async (q) => (await q.key("ann")).costTokens;

test("what a delivery has cost decides on the next", async () => {
  for (const [spent, served] of [[undefined, 2], [10, 3], [1000, 1]]) {
    const q = queue();
    await q.configure({ cost_rate: rate });
    await q.pushMany(Array.from({ length: 5 }, () => ({ payload: "x", cost: 60 })));
    const item = await q.pop({ lease: "1h" });
    assert.equal(item.cost, 60);
    if (spent !== undefined) item.spent(spent);
    await item.ack();
    for (let more = 1; more < served; more++) await q.pop({ lease: "1h" });
    await fails(q.pop({ lease: "1h" }), EmptyError, 404, "rate");
  }
});

test("an extension reserves", async () => {
  const q = queue();
  await q.configure({ cost_rate: rate });
  await q.pushMany(Array.from({ length: 3 }, () => ({ payload: "x", cost: 60 })));
  const item = await q.pop({ lease: "1h" });
  item.spent(10);
  await item.extend(); // it only raises
  await (await q.pop({ lease: "1h" })).giveBack();
  item.spent(100);
  await item.extend();
  await fails(q.pop({ lease: "1h" }), EmptyError, 404, "rate");
  item.spent(30);
  await item.ack();
  assert.equal((await q.pop({ lease: "1h" })).cost, 60);
});

test("each settlement corrects what was reserved", async () => {
  for (const [end, cost] of [
    [(i) => i.ack(), 1],
    [(i) => i.ack({ result: "r" }), 1],
    [(i) => i.nak({ delay: "1h" }), 1],
    [(i) => i.nak({ delay: "1h", reason: "r" }), 1],
    [(i) => i.term("r"), 1],
    [(i) => i.giveBack("r"), 1],
    [(i) => i.giveBack(), 0],
    [(i) => i.extend(), 20],
    [(i) => i.ackNext(), 1 + 20],
  ]) {
    const q = await costly(2);
    const item = await q.pop({ lease: "1h" });
    assert.equal(await tokens(q), 80);
    item.spent(1);
    await end(item);
    assert.equal(await tokens(q), 100 - cost, `${end}`);
  }
});

test("settlements of one message correct it, and a key shows what it owes", async () => {
  let q = await costly(9);
  let items = await q.popMany(5, { lease: "1h" });
  assert.equal(await tokens(q), 0);
  for (const [i, cost] of [[0, 0], [1, 1], [3, 100]]) items[i].spent(cost);
  await Promise.all(items.map((item) => item.ack()));
  const info = await q.key("ann");
  assert.deepEqual([info.costTokens, info.costRate, info.waitsFor, info.retry !== ""], [100 - 0 - 1 - 20 - 100 - 20, "100/24h0m0s", "key_cost_rate", true]);
  assert.deepEqual(await q.setKey("ann", { costRate: "", limit: 9 }), { costRate: "", limit: 9 });
  const free = await q.key("ann");
  assert.deepEqual([free.costTokens, free.costRate, free.waitsFor, free.settings], [undefined, "", "", { costRate: "", limit: 9 }]);
  for await (const key of q.keys()) assert.deepEqual(key, free);
  assert.deepEqual(await q.setKey("ann", { costRate: null }), { limit: 9 });

  q = await costly(4);
  items = await q.popMany(4, { lease: "1h" });
  for (const item of items.slice(1)) item.spent(2);
  assert.deepEqual(await q.ackMany(items), [null, null, null, null]);
  assert.equal(await tokens(q), 100 - 20 - 3 * 2);
});

test("items and lists show it", async () => {
  const q = queue();
  const { cost_rate, key_cost_rate } = await q.configure({ cost_rate: "90000/1m" });
  assert.deepEqual([cost_rate, key_cost_rate], ["90000/1m0s", ""]);
  const shown = [];
  for (const cost of [undefined, 1, 60]) shown.push((await q.get((await q.push("x", { cost })).id)).cost);
  for await (const { cost } of q.list()) shown.push(cost);
  for (const { cost } of await q.popMany(3)) shown.push(cost);
  assert.deepEqual(shown, [1, 1, 60, 1, 1, 60, 1, 1, 60]);
});

test("schedules have it, and sources", async () => {
  const q = queue();
  for (const cost of [5, undefined]) {
    assert.equal((await q.setSchedule("s", { spec: "@daily", item: { payload: "x", cost } })).item.cost, cost);
    await q.runSchedule("s");
    assert.equal((await q.pop()).cost, cost ?? 1);
  }
  const [copies, name] = [client.queue("copies"), fresh("cost")]; // which may read ORDERS
  const { map } = await copies.setSource(name, { remote: "self", stream: "ORDERS", map: { cost: { header: "Tokens", default: 5 } }, paused: true });
  await copies.deleteSource(name);
  assert.deepEqual(map, { cost: { header: "Tokens", default: "5" } });
});
