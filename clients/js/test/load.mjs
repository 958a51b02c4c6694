// One of several programs that use a queue while pqd is killed: load.mjs <role> <queue> [<count>].
// It prints that it is ready, and a line for each item. On SIGTERM it finishes what it has begun, and ends.
import { randomUUID } from "node:crypto";
import { Client } from "pqbridge";
import { connect } from "@nats-io/transport-node";

const [role, name, count] = process.argv.slice(2);
const nc = await connect({ servers: process.env.NATS_URL, reconnectTimeWait: 50, maxReconnectAttempts: -1 });
const queue = new Client(nc, { timeout: "5m", maxInFlight: 64 }).queue(name);
const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());
const say = (what, item) => console.log(`${what} ${item}`);

const roles = {
  // Pushes single items and bundles, many at a time.
  async push() {
    const all = [];
    for (let i = 0; i < Number(count); i += 10) {
      const ten = Array.from({ length: 10 }, (_, n) => `${i + n}`);
      const pushes = (i / 10) % 2 ? [queue.pushMany(ten.map((payload) => ({ payload })))] : ten.map((payload) => queue.push(payload));
      all.push(Promise.all(pushes).then((done) => done.flat().forEach(({ duplicate, id }, n) => say(duplicate || !id ? "duplicate" : "pushed", ten[n]))));
      if (all.length % 8 === 0) await all[all.length - 8]; // some are under way at any time
    }
    await Promise.all(all);
  },

  // Leases items. The lease is long: an item that a lost answer carried does not come back in time.
  async consume() {
    const consumer = queue.consume((item) => say("done", item.string()), {
      concurrency: 4,
      lease: "1h",
      repeatable: true,
      signal: stop.signal,
      onError: (err) => console.error(err),
    });
    await consumer.closed;
  },

  // Returns results, each after a line that says so.
  async returns() {
    const work = (item) => {
      const text = `${item.string()} ${item.fence} ${randomUUID()}`;
      say(item.string(), text);
      return text;
    };
    await queue.consume(work, { concurrency: 4, lease: "2s", signal: stop.signal, onError: () => {} }).closed;
  },

  // Leases bundles, and acknowledges with the next item.
  async next() {
    while (!stop.signal.aborted) {
      const items = await queue.popMany(5, { lease: "1h", wait: "10m", timeout: "20m", repeatable: true, signal: stop.signal }).catch(stopped);
      for (let item of items ?? []) {
        while (item) {
          say("done", item.string());
          item = stop.signal.aborted ? await item.ack() : await item.ackNext();
        }
      }
    }
  },

  // Takes items without a lease, each exactly once.
  async pop() {
    while (!stop.signal.aborted) {
      // It ends between two pops: one that is abandoned may take an item along.
      const item = await queue.pop({ wait: 200, timeout: "5m", repeatable: true }).catch((err) => {
        if (err.code !== 408) throw err;
      });
      if (item) say("done", item.string());
    }
  },
};

function stopped(err) {
  if (!stop.signal.aborted) throw err;
}

console.log("ready");
await roles[role]();
await nc.close();
