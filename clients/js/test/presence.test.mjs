// What becomes of items that arrive while a program stops waiting for them.
import { test } from "node:test";
import assert from "node:assert/strict";
import { BadRequestError, Client, EmptyError, PQError, UnknownResultError } from "pqbridge";
import { answer, client, connection, fails, failure, fake, nc, patience, queue, slow, until } from "./world.mjs";

const rounds = Number(process.env.PQ_TEST_ROUNDS ?? 1000);
const seed = Number(process.env.PQ_TEST_SEED ?? Date.now() % 2 ** 31);
console.log(`# PQ_TEST_SEED=${seed}`);

/** Random numbers from 0 up to 1, the same ones for a seed. */
function randomNumbers(from) {
  let state = from >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Waits for anything from no time at all to some milliseconds. */
async function aMoment(random) {
  const r = random();
  if (r < 0.2) return;
  if (r < 0.5) return new Promise((resolve) => setImmediate(resolve));
  await new Promise((resolve) => setTimeout(resolve, random() * 4));
}

/** Whether somebody listens on a subject. */
const heard = (subject) => nc.request(subject, "", { timeout: 200 }).then(() => true, (err) => !/responders/.test(err.message));

/** Says of each request to pop from a queue that waits at the bridge. */
function waits(q, then) {
  return nc.subscribe(`pq.${q.name}.pop.min`, { callback: (_, m) => m.string().includes('"expires"') && then() });
}

const ways = {
  async "with a lease"(q, options) {
    const item = await q.pop({ ...options, lease: "1h" });
    await item.ack();
    return [item];
  },
  async "with a lease and an id"(q, options) {
    const item = await q.pop({ ...options, lease: "1h", repeatable: true });
    await item.ack();
    return [item];
  },
  async "many with a lease"(q, options) {
    const items = await q.popMany(3, { ...options, lease: "1h" });
    assert.deepEqual(await q.ackMany(items), items.map(() => null));
    return items;
  },
  "for good": async (q, options) => [await q.pop(options)],
  "for good with an id": async (q, options) => [await q.pop({ ...options, repeatable: true })],
  "many for good": (q, options) => q.popMany(3, options),
};

/** Ways to stop waiting. Each is given the pop, and returns its items. */
const ends = {
  async abort(pop, random) {
    const stop = new AbortController();
    const popped = pop({ signal: stop.signal });
    await popped.waits;
    await aMoment(random);
    stop.abort();
    return popped.items;
  },
  timeout: (pop, random) => pop({ wait: 1 + Math.floor(random() * 20) }).items,
  async "first of two"(pop, random) {
    const stop = new AbortController();
    const popped = pop({ signal: stop.signal });
    await popped.waits;
    await Promise.race([popped.items, aMoment(random)]);
    stop.abort();
    return popped.items;
  },
};

/** Pops from a queue of its own again and again, and stops at some moment beside a push. */
async function lane(name, take, end, number, n) {
  const q = queue(new Client(await connection(), { timeout: patience }));
  await q.configure({ max_deliveries: 0 }); // and the server knows the inbox
  const random = randomNumbers(seed + number);
  let waiting = () => {};
  const observer = waits(q, () => waiting());
  const ranOut = nc.subscribe(`pq.${q.name}.event.lease_lost`, { callback: () => assert.fail(`${name}: a lease ran out`) });
  await nc.flush();
  const got = new Set();
  const pushes = [];
  for (let i = 0; i < n; i++) {
    const began = new Promise((resolve) => (waiting = resolve));
    const pop = (options) => {
      const items = take(q, { wait: "1m", ...options }).catch((err) => {
        if (!(err instanceof PQError) || (err.code !== 504 && err.code !== 408)) throw err;
        return [];
      });
      return { items, waits: Promise.race([began, items]) };
    };
    const popped = end(pop, random);
    await Promise.race([began, popped]);
    await aMoment(random);
    pushes.push(client.queue(q.name).push(`${i}`));
    for (const { id } of await popped) {
      assert.ok(!got.has(id), `${name}: item ${id} came twice`);
      got.add(id);
    }
  }
  await Promise.all(pushes);
  observer.unsubscribe();
  await q.client.mailbox.quiet();
  await until(`${name}: the client has ${got.size} of ${n} items, and the queue the others`, async () => (await q.info()).ready === n - got.size);
  ranOut.unsubscribe();
  const left = (await q.popMany(1000).catch(none)).concat(await q.popMany(1000).catch(none));
  for (const { id } of left) assert.ok(!got.has(id), `${name}: item ${id} is still there`);
  assert.equal(got.size + left.length, n, `${name}: the client has ${got.size} items, and the queue ${left.length}`);
  return got.size;
}

const none = (err) => {
  if (err instanceof EmptyError) return [];
  throw err;
};

test("a cancelled pop takes nothing: the client has the item, or the queue", async () => {
  const lanes = [];
  for (const [way, take] of Object.entries(ways)) for (const [what, end] of Object.entries(ends)) lanes.push([`${way}, ${what}`, take, end]);
  const each = Math.min(Math.ceil(rounds / lanes.length), 1900);
  const got = await Promise.all(lanes.map(([name, take, end], number) => lane(name, take, end, number, each)));
  for (const [i, n] of got.entries()) assert.ok(n > 0, `${lanes[i][0]}: no pop got an item`);
});

test("what a pop for good has waited for is no other item than what was there", async () => {
  const q = queue();
  await q.configure({});
  for (const [options, many] of [[{}, false], [{ repeatable: true }, false], [{ holder: "w1" }, true]]) {
    const take = async (more) => (many ? (await q.popMany(5, { ...options, ...more }))[0] : q.pop({ ...options, ...more }));
    await q.push("x", { priority: 7, key: "k", headers: { A: "1" } });
    const there = await take({});
    for (let time = 1; time <= 3; time++) {
      const waited = take({ wait: patience });
      await until("it waits", async () => (await q.info()).waiting === 1);
      await q.push("x", { priority: 7, key: "k", headers: { A: "1" } });
      const item = await waited;
      assert.deepEqual({ ...item, id: "", pushed: 0 }, { ...there, id: "", pushed: 0 });
      assert.deepEqual([item.leased, item.settled, item.ackSubject, item.deliveries], [false, false, "", 0]);
      const { ready, leased } = await q.info();
      assert.deepEqual([ready, leased], [0, 0]);
    }
  }
});

test("a queue that leases by itself leases to a pop that waits, too, and the caller settles it", async () => {
  const q = queue();
  await q.configure({ lease: "1h" });
  for (const lease of ["1h", "0s", "2h"]) { // the last ones are set while the pop waits
    const waited = q.pop({ wait: patience });
    await until("it waits", async () => (await q.info()).waiting === 1);
    await q.configure({ lease });
    await q.push("x");
    const item = await waited;
    const leased = lease !== "0s";
    assert.deepEqual([item.leased, item.deliveries, (await q.info()).leased], [leased, leased ? 1 : 0, leased ? 1 : 0], lease);
    if (!leased) continue;
    assert.ok(item.leaseExpires - Date.now() > 30 * 60_000, `it is leased until ${item.leaseExpires}`);
    const held = item.hold();
    await item.ack();
    held.stop();
  }
});

test("who may not acknowledge waits in one step, and the server is asked once", async () => {
  const q = queue();
  await q.configure({});
  const own = await connection({ user: "taker", pass: "taker" });
  const denied = [];
  void (async () => {
    for await (const { type, error } of own.status()) if (type === "error") denied.push(error.message);
  })();
  const few = new Client(own, { timeout: patience }).queue(q.name);
  const seen = [];
  const observer = nc.subscribe(`pq.${q.name}.>`, { callback: (_, m) => /\.(pop|ack)\./.test(m.subject) && seen.push([m.subject.split(".")[2], m.string().includes("confirm")]) });
  await nc.flush();
  for (const text of ["a", "b", "c"]) {
    const waited = few.pop({ wait: patience });
    await until("it waits", async () => (await q.info()).waiting === 1);
    await q.push(text);
    assert.equal((await waited).string(), text);
    await until("nobody waits", async () => (await q.info()).waiting === 0);
  }
  observer.unsubscribe();
  assert.deepEqual(seen, Array(6).fill(["pop", false]));
  assert.deepEqual([denied.length, /\.ack\.may-settle\./.test(denied[0])], [1, true], `${denied}`);
  assert.equal((await q.info()).leased, 0);
});

/** A stand-in with one item after another for pops that wait, which has some word for acknowledgements, by their number. */
async function confirming(settle, options) {
  let [items, acks] = [0, 0];
  const { client: c, requests, ...rest } = await fake((verb, _n, m, p) => {
    if (verb.includes("may-settle")) return failure(400);
    if (verb.includes(".ack.")) return m.string() === "+ACK" || verb.endsWith("settle") ? settle(++acks) : answer({});
    const body = m.string() ? m.json() : {};
    if (!body.expires) return failure(404, "empty");
    const one = answer({ "PQ-Id": `${++items}`, "PQ-Fence": "1", "PQ-Deliveries": "1", "PQ-Ack": `${p}.jobs.ack.c.${items}`, "PQ-Confirm": "2030-01-02T03:04:05Z" });
    return body.bundle ? [one, answer({ Status: "204" })] : one;
  }, options);
  /** What was asked: verbs, the fields of pops, the words of settlements. */
  const asked = () => requests.map(({ verb, body }) => (verb.includes(".ack.") ? `${verb.includes("may-settle") ? "may-settle" : verb.split(".").at(-1)} ${body}` : Object.keys(JSON.parse(body || "{}")).sort().join()));
  return { q: c.queue("jobs"), c, requests, asked, ...rest };
}

test("a pop for good looks, asks once whether it may settle, waits, and acknowledges", async () => {
  const { q, asked, requests } = await confirming(() => answer({}));
  for (const id of ["1", "2"]) {
    const item = await q.pop({ wait: "1m", repeatable: true });
    assert.deepEqual([item.id, item.leased, item.deliveries], [id, false, 0]);
  }
  assert.deepEqual(asked(), ["msg_id", "may-settle +WPI", "confirm,expires,msg_id", "1 +ACK", "msg_id", "confirm,expires,msg_id", "2 +ACK"]);
  const pops = requests.filter((r) => r.verb.includes("pop")).map((r) => JSON.parse(r.body));
  assert.deepEqual([new Set(pops.map((p) => p.msg_id)).size, pops[1].confirm], [4, 30e9]);
});

test("a new connection is asked anew whether it may settle", async () => {
  const { q, asked, nc: own } = await confirming(() => answer({}));
  await q.pop({ wait: "1m" });
  await own.reconnect();
  await q.pop({ wait: "1m", repeatable: true }); // whose look may be lost with the connection
  assert.equal(asked().filter((a) => a === "may-settle +WPI").length, 2);
});

/** The word of a settlement, or the fields of a pop. */
const wordOf = ({ body }) => (body.startsWith("+") ? body : Object.keys(JSON.parse(body || "{}")).sort().join());

test("a pop waits in one step where no acknowledgement gets through", async () => {
  const { client: c, requests } = await fake((verb, _n, m) => {
    if (verb.includes(".ack.")) return answer({ Status: "503" });
    const body = m.string() ? m.json() : {};
    return body.expires ? answer({ "PQ-Id": "i" }) : failure(404, "empty");
  });
  for (let time = 1; time <= 2; time++) assert.equal((await c.queue("jobs").pop({ wait: "1m" })).id, "i");
  assert.deepEqual(requests.map(wordOf), ["", "+WPI", "expires", "", "+WPI", "expires"]);
});

test("a wait that is refused is an error, and the next one has two steps again", async () => {
  const { client: c, requests } = await fake((verb, _n, m) => (m.string() ? failure(400) : failure(404, "empty")));
  for (let time = 1; time <= 2; time++) assert.equal((await fails(c.queue("jobs").pop({ wait: "1m" }), BadRequestError, 400)).op, "pop");
  assert.deepEqual(requests.map(wordOf), ["", "+WPI", "confirm,expires", "", "confirm,expires"]);
});

test("an item whose acknowledgement is refused because others have it is not handed out", async () => {
  const { q, asked } = await confirming((n) => (n === 1 ? failure(410, "taken") : answer({})));
  assert.equal((await q.pop({ wait: "1m" })).id, "2");
  assert.deepEqual(asked().slice(2), ["confirm,expires", "1 +ACK", "confirm,expires", "2 +ACK"]);
});

test("an item whose acknowledgement is not answered is not handed out, and goes back if it is still there", async () => {
  const { q, asked } = await confirming(() => undefined, { timeout: 500 });
  const err = await fails(q.pop({ wait: "1m" }), UnknownResultError, 504);
  assert.equal(err.op, "pop");
  await until("it is given back", () => asked().includes("1 +BACK"));
});

test("an acknowledgement that was asked for counts, though the caller leaves", async () => {
  const stop = new AbortController();
  const { q } = await confirming(() => {
    stop.abort();
    return answer({});
  });
  assert.equal((await q.pop({ wait: "1m", signal: stop.signal })).id, "1");
});

test("who has left when the item arrives gives it back", async () => {
  for (const many of [false, true]) {
    const { q, c, asked } = await confirming(() => answer({}));
    const stop = new AbortController();
    const of = c.acks.of.bind(c.acks);
    c.acks.of = (...given) => {
      stop.abort(new Error("enough")); // while the item is read
      return of(...given);
    };
    const options = { wait: "1m", signal: stop.signal };
    const err = await fails(many ? q.popMany(3, options) : q.pop(options), EmptyError, 408);
    assert.equal(err.cause.message, "enough");
    await until("it is back", () => asked().includes("1 +BACK"));
    assert.ok(!asked().includes("1 +ACK"));
  }
});

test("a wait for good that is ended has taken nothing", async () => {
  const q = queue();
  await q.configure({});
  const stop = new AbortController();
  const waited = q.pop({ wait: "1m", signal: stop.signal });
  await until("it waits", async () => (await q.info()).waiting === 1);
  stop.abort(new Error("enough"));
  assert.equal((await fails(waited, EmptyError, 408)).cause.message, "enough");
});

test("a pop that waits has a reply subject of its own, and listens there until it ends", async () => {
  for (const [what, ended] of [
    ["answer", (m, p) => m.respond("", { headers: answer({ "PQ-Id": "i", "PQ-Fence": "1", "PQ-Ack": `${p}.jobs.ack.c.t` }).headers })],
    ["refusal", (m) => m.respond("", { headers: failure(400).headers })],
    ["abort", (_m, _p, stop) => stop.abort()],
    ["timeout", () => {}],
    ["peek", (m) => m.respond("", { headers: answer({ "PQ-Id": "i" }).headers })],
  ]) {
    const held = [];
    const { client: c, prefix } = await fake((_verb, _n, m) => void held.push(m));
    const stop = new AbortController();
    const options = { wait: "1m", signal: stop.signal, timeout: what === "timeout" ? 300 : patience };
    const q = c.queue("jobs");
    const done = (what === "peek" ? q.peek(options) : q.pop({ ...options, lease: "1m" })).catch(() => {});
    await until("the request is there", () => held.length === 1);
    assert.match(held[0].reply, /^_INBOX\.\w+\.w\.[0-9a-f]{32}$/, what);
    assert.equal(await heard(held[0].reply), true, what);
    ended(held[0], prefix, stop);
    await done;
    await until(`${what}: nobody listens`, async () => !(await heard(held[0].reply)));
  }
});

test("a pop that waits asks under another subject on a new connection", async () => {
  for (const options of [{ lease: "1m" }, {}]) {
    const held = [];
    const { client: c, nc: own } = await fake((verb, _n, m) => {
      if (verb.includes(".ack.")) return failure(400);
      return m.string().includes("expires") ? void held.push(m) : failure(404, "empty");
    });
    const stop = new AbortController();
    const done = c.queue("jobs").pop({ ...options, wait: "1m", signal: stop.signal }).catch(() => {});
    await until("it was asked once", () => held.length === 1);
    await own.reconnect();
    await until("it was asked again", () => held.length === 2);
    await until("nobody listens to the first", async () => !(await heard(held[0].reply)));
    assert.equal(await heard(held[1].reply), true);
    stop.abort();
    await done;
  }
});

test("a look without an answer takes no longer than the wait", async () => {
  const { client: c } = await fake(() => undefined);
  const err = await fails(c.queue("jobs").pop({ wait: 100, timeout: patience }), UnknownResultError, 504);
  assert.equal(err.cause.message, "no answer arrived in time");
});

test("the answer to a pop that waits may come later than other requests are repeated", async () => {
  const askAgainAfter = 100 * slow;
  const { client: c, prefix } = await fake((verb, _n, m) => {
    if (verb.includes("pop")) setTimeout(() => m.respond("x", { headers: answer({ "PQ-Id": "i", "PQ-Ack": `${prefix}.jobs.ack.c.t` }).headers }), 2 * askAgainAfter);
  }, { askAgainAfter });
  assert.equal((await c.queue("jobs").pop({ wait: 1, lease: "1h" })).string(), "x");
});

test("a wait that the bridge ends early goes on", async () => {
  const item = (p) => answer({ "PQ-Id": "i", "PQ-Fence": "1", "PQ-Ack": `${p}.jobs.ack.c.t` }, "x");
  for (const [what, act] of [
    ["lease", (q) => q.pop({ wait: "1m", lease: "1m" })],
    ["lease and id", (q) => q.pop({ wait: "1m", lease: "1m", repeatable: true })],
    ["many", async (q) => (await q.popMany(3, { wait: "1m", lease: "1m" }))[0]],
    ["peek", (q) => q.peek({ wait: "1m" })],
  ]) {
    const { client: c, requests } = await fake((_verb, n, _m, p) => (n < 4 ? failure(408) : [item(p), answer({ Status: "204" })]), { askAgainAfter: patience });
    assert.equal((await act(c.queue("jobs"))).string(), "x", what);
    const bodies = requests.filter((r) => /\.(pop|peek)\.min$/.test(r.verb)).map((r) => JSON.parse(r.body));
    assert.equal(bodies.length, 4, what);
    assert.deepEqual(bodies.map((b) => b.expires), bodies.map((b) => b.expires).sort((a, b) => b - a), what);
    assert.ok(bodies[0].expires <= 60e9 && bodies[3].expires > 30e9, what);
    assert.deepEqual([new Set(bodies.map((b) => b.msg_id)).size, new Set(requests.map((r) => r.reply)).size], [1, requests.length], what);
  }
});

// Under an id that was repeated and found nothing, nothing is found any more.
test("a repeated wait that the bridge ends early goes on under another id, and one of the caller's ends", async () => {
  const answers = [failure(504), failure(408), failure(404, "empty")];
  for (const [options, want] of [[{ repeatable: true }, [false, true, false]], [{ popId: "a" }, [false, true]]]) {
    const { client: c, requests } = await fake((_verb, n) => answers[n - 1], { askAgainAfter: patience });
    await assert.rejects(c.queue("jobs").pop({ ...options, wait: "1m", lease: "1m" }), EmptyError);
    const bodies = requests.map((r) => JSON.parse(r.body));
    assert.deepEqual(bodies.map((b) => b.repeat === true), want);
    assert.equal(new Set(bodies.map((b) => b.msg_id)).size, options.popId ? 1 : 2);
  }
});

/** Deploys a worker again and again: it begins with items, or does not come to that, and is stopped. */
async function deploy(times, random) {
  const q = queue();
  await q.configure({ backoff: ["1h"], max_deliveries: 3 }); // what counts as a failure stays away
  let begun = 0;
  let late = Promise.resolve();
  const stopped = new Set();
  const observer = nc.subscribe(`pq.${q.name}.ack.>`, { callback: (_, m) => m.string() === "+BACK stopped" && stopped.add(m.subject) });
  await nc.flush();
  await q.pushMany([{ payload: "a" }, { payload: "b" }]);
  for (let n = 0; n < times; n++) {
    const own = await connection();
    const worker = new Client(own, { timeout: patience }).queue(q.name).consume((_, signal) => {
      begun++;
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("interrupted"))));
    }, { concurrency: 4 });
    if (random() < 0.5) await until("all wait or work", async () => (await q.info()).waiting > 0 && begun > 0);
    if (n === times >> 1) late = q.push("c").then(() => {}); // beside the end of a worker
    await aMoment(random);
    await worker.drain({ grace: Math.floor(random() * 2) });
    await own.close();
  }
  await late;
  await until("all three are ready", async () => (await q.info()).ready === 3);
  observer.unsubscribe();
  let items = 0;
  for await (const item of q.list({ attempts: true })) {
    items++;
    assert.deepEqual([item.failures, item.interruptions], [0, 0]);
    for (const a of item.lastAttempts) assert.deepEqual([a.outcome, a.reason], ["back", "stopped"]);
  }
  assert.deepEqual([items, stopped.size], [3, begun]);
  assert.ok(begun > 3, `${begun} handlers began`);
}

test("stop hands back: deploys are no failures, however many there are", () => deploy(Math.ceil(rounds / 50), randomNumbers(seed)));

test("stop hands back: a rate of one an hour is not used up by a worker that has stopped", async () => {
  const random = randomNumbers(seed);
  let back = 0;
  for (let n = 0; n < Math.ceil(rounds / 50) || back < 3; n++) {
    const q = queue();
    await q.configure({ rate: "1/1h" });
    let begun = 0;
    const worker = q.consume(() => void begun++);
    await until("it waits", async () => (await q.info()).waiting === 1);
    const pushed = q.push("x");
    await aMoment(random);
    await worker.drain();
    await pushed;
    if (begun > 0) continue;
    back++;
    assert.equal((await q.pop({ lease: "1m", wait: "30m", timeout: patience })).string(), "x");
  }
});
