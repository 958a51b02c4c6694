// Jobs in BullMQ, for tests of pq import: node bullmq.mjs <port of Redis> <number of plain jobs>
import { Queue, Worker } from "bullmq";

const connection = { host: "127.0.0.1", port: Number(process.argv[2]) };
const plain = Number(process.argv[3]);
const hour = 3_600_000;
const queue = new Queue("emails", { connection });
for (let n = 0; n < plain; n += 1000) {
  await queue.addBulk(Array.from({ length: Math.min(1000, plain - n) }, (_, i) => ({ name: "plain", data: { n: n + i } })));
}
await queue.add("low", { n: "low" }, { priority: 7 });
await queue.add("high", { n: "high" }, { priority: 2 });
await queue.add("later", { n: "later" }, { delay: hour });
await queue.add("first\nof all", { n: "first" }, { lifo: true, jobId: "an id of its own" });

// One that is completed, one that has failed for good, one that waits for its second attempt, one
// that a worker holds.
const failing = new Queue("failing", { connection });
await failing.add("done", { to: "zoe" });
await failing.add("once", { to: "ann" }, { attempts: 1 });
await failing.add("again", { to: "bob" }, { attempts: 3, backoff: { type: "fixed", delay: hour } });
let failed = 0;
await new Promise((done) => {
  const worker = new Worker("failing", async (job) => {
    if (job.name === "done") return;
    throw new Error(`no route to ${job.data.to}`);
  }, { connection });
  worker.on("failed", async () => {
    if (++failed === 2) {
      await worker.close();
      done();
    }
  });
});
await failing.add("held", { to: "eve" });
const holder = new Worker("failing", null, { connection });
await holder.getNextJob("a token");
process.exit(0); // it does not give the job back
