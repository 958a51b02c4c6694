// What becomes of items that arrive while a program stops waiting for them.
import { test } from "node:test";
import assert from "node:assert/strict";
import { Client, EmptyError, PQError, UnknownResultError } from "pqbridge";
import { answer, client, connection, failure, fake, nc, patience, queue, until } from "./world.mjs";

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

/** Says of each request to pop from a queue, or to peek, that waits at the bridge. */
function waits(q, then) {
  return nc.subscribe(`pq.${q.name}.*.min`, { callback: (_, m) => m.string().includes('"expires"') && then() });
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
  assert.deepEqual([...new Set((await client.history()).failed)], [0]); // what asks for a right is no request
});

test("a queue that leases by itself leases to a pop that waits, too, and the caller settles it", async () => {
  const q = queue();
  await q.configure({ lease: "1h" });
  const fresh = new Client(await connection(), { timeout: patience }).queue(q.name); // which knows nothing of the queue
  for (let time = 1; time <= 2; time++) {
    const waited = fresh.pop({ wait: patience });
    await until("it waits", async () => (await q.info()).waiting === 1);
    await q.push("x");
    const item = await waited;
    assert.deepEqual([item.leased, (await q.info()).leased, item.leaseExpires - Date.now() > 30 * 60_000], [true, 1, true]);
    await item.ack();
  }
  await q.configure({ lease: "0s" });
  await q.push("x");
  assert.equal((await fresh.pop({ wait: patience })).leased, false);
});

test("who may not acknowledge waits with a plain pop, and who may not peek, too", async () => {
  for (const user of ["taker", "popper"]) {
    const q = queue();
    await q.configure({});
    const own = await connection({ user, pass: user });
    const few = new Client(own, { timeout: patience }).queue(q.name);
    const seen = [];
    const observer = nc.subscribe(`pq.${q.name}.>`, { callback: (_, m) => m.subject.includes(".info") || m.subject.includes(".push") || seen.push([m.subject.split(".")[2], m.string().includes("lease")]) });
    for (const text of ["a", "b", "c"]) {
      const waited = few.pop({ wait: patience });
      await until("it waits", async () => (await q.info()).waiting === 1);
      await q.push(text);
      assert.equal((await waited).string(), text);
    }
    observer.unsubscribe();
    assert.deepEqual(seen.filter(([verb, leases]) => verb === "ack" || leases), [], user);
    assert.equal((await q.info()).leased, 0);
  }
});

test("an item whose acknowledgement is refused because others have it is not handed out", async () => {
  let pops = 0;
  const { client: c, requests } = await fake((verb, _n, m, p) => {
    if (verb.includes("peek")) return answer({ "PQ-Id": "i" });
    if (verb.includes(".ack.")) return verb.endsWith("first") ? failure(410, "taken") : answer({});
    const body = m.string() ? m.json() : {};
    if (!body.expires) return pops++ === 1 ? answer({ "PQ-Id": "plain" }) : failure(404, "empty");
    return answer({ "PQ-Id": body.lease ? "leased" : "wrong", "PQ-Fence": "1", "PQ-Deliveries": "1", "PQ-Ack": `${p}.jobs.ack.c.${requests.some((r) => r.verb.endsWith("first")) ? "second" : "first"}` });
  });
  const q = c.queue("jobs");
  assert.equal((await q.pop({ wait: "1m" })).id, "plain"); // it was peeked at
  assert.equal((await q.pop({ wait: "1m" })).id, "leased");
  assert.deepEqual(requests.filter((r) => r.verb.includes(".ack.c.")).map((r) => r.verb.slice(-6)), [".first", "second"]);
});

test("who has left when the item arrives gives it back", async () => {
  for (const many of [false, true]) {
    const { client: c, requests } = await fake((verb, n, m, p) => {
      if (n === 1) return [answer({ "PQ-Id": "plain" }), answer({ Status: "204" })];
      if (verb.includes(".ack.")) return answer({});
      return m.string().includes("lease") ? [answer({ "PQ-Id": "i", "PQ-Fence": "1", "PQ-Ack": `${p}.jobs.ack.c.t` }), answer({ Status: "204" })] : failure(404, "empty");
    });
    const q = c.queue("jobs");
    const take = (options) => (many ? q.popMany(3, options) : q.pop(options));
    await take({});
    const stop = new AbortController();
    const of = c.acks.of.bind(c.acks);
    c.acks.of = (...given) => {
      stop.abort(new Error("enough")); // while the item is read
      return of(...given);
    };
    await assert.rejects(take({ wait: "1m", signal: stop.signal }), (err) => err instanceof UnknownResultError && err.cause?.message === "enough");
    await until("it is back", () => requests.some((r) => r.verb === "jobs.ack.c.t"));
    assert.deepEqual(requests.filter((r) => r.verb === "jobs.ack.c.t").map((r) => r.body), ["+BACK"]);
  }
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
  const held = [];
  const { client: c, nc: own } = await fake((_verb, _n, m) => void held.push(m));
  const stop = new AbortController();
  const done = c.queue("jobs").pop({ wait: "1m", lease: "1m", signal: stop.signal }).catch(() => {});
  await until("it was asked once", () => held.length === 1);
  await own.reconnect();
  await until("it was asked again", () => held.length === 2);
  await until("nobody listens to the first", async () => !(await heard(held[0].reply)));
  assert.equal(await heard(held[1].reply), true);
  stop.abort();
  await done;
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
  let [items, attempts] = [0, 0];
  for await (const item of q.list({ attempts: true })) {
    items++;
    attempts += item.attempts;
    assert.deepEqual([item.failures, item.interruptions], [0, 0]);
    for (const a of item.lastAttempts) assert.deepEqual([a.outcome, a.reason], ["back", "stopped"]);
  }
  assert.deepEqual([items, attempts], [3, begun]);
  assert.ok(begun > 3, `${begun} handlers began`);
}

test("stop hands back: deploys are no failures, however many there are", async () => {
  const [times, each] = [Math.ceil(rounds / 50), 25]; // how often one item may be handed back is bounded
  const random = randomNumbers(seed);
  for (let n = 0; n < times; n += each) await deploy(each, random);
});

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
