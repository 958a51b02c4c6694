// What becomes of items that arrive while a program stops waiting for them.
import { test } from "node:test";
import assert from "node:assert/strict";
import { Client, EmptyError, PQError } from "pqbridge";
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
  timeout: (pop, random) => pop({ timeout: 1 + Math.floor(random() * 20) }).items,
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
  await until(`${name}: no item is leased`, async () => (await q.info()).leased === 0);
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
