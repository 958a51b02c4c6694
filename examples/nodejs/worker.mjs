// A worker in JavaScript: it does the jobs of a queue, one after another, until
// it is interrupted.
//
//   npm install && node worker.mjs jobs
//
// A job says what to do, as in "resize cat.png".
import { headers, nanos } from "@nats-io/nats-core";
import { connect } from "@nats-io/transport-node";

const lease = 30_000; // until a worker that died is missed
const wait = 20_000; // for something to arrive

const queue = process.argv[2];
if (!queue) {
  console.error("usage: worker.mjs <queue>");
  process.exit(2);
}
const nc = await connect({
  servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222",
  name: "worker",
  maxReconnectAttempts: -1,
});

let stopping = false;
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.on(signal, () => {
    stopping = true;
    if (!working) nc.close(); // ends the pop that waits
  });
}

let working = false;
while (!stopping) {
  let item;
  try {
    item = await pop();
  } catch (err) {
    if (stopping) break;
    console.error(err.message);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    continue;
  }
  if (!item) continue;
  working = true;
  // Work in progress: the lease starts afresh as long as this goes on.
  const extend = setInterval(() => item.respond("+WPI"), lease / 3);
  let verdict = "+ACK";
  try {
    await work(item);
  } catch (err) {
    console.error(err.message);
    verdict = err.hopeless ? `+TERM ${err.message}` : "-NAK " + JSON.stringify({ delay: nanos(5000) });
  }
  clearInterval(extend);
  await settle(item, verdict);
  working = false;
}
await nc.close();

// pop returns an item, or nothing when nothing arrived.
async function pop() {
  const h = headers();
  h.set("PQ-Lease", `${lease}ms`);
  h.set("PQ-Wait", `${wait}ms`);
  const reply = await nc.request(`pq.${queue}.pop.min`, "", { headers: h, timeout: wait + 5000 });
  if (reply.headers.has("PQ-Id")) return reply;
  if (reply.headers.get("Status") === "408") return undefined;
  throw new Error(reply.headers.get("Nats-Service-Error"));
}

// settle settles the lease. If no answer comes, or the answer says that
// the lease was lost, another worker does the job again.
async function settle(item, verdict) {
  try {
    const answer = await nc.request(item.reply, verdict, { timeout: 10_000 });
    if (answer.headers?.get("Status")) console.error(answer.headers.get("Nats-Service-Error"));
  } catch (err) {
    console.error(`${verdict}: ${err.message}`);
  }
}

async function work(item) {
  const [verb, object] = item.string().split(" ");
  if (!object) {
    throw Object.assign(new Error(`job "${item.string()}": expected a verb and an object`), { hopeless: true });
  }
  console.log(`${verb} ${object}: done, priority ${item.headers.get("PQ-Priority")}`);
}
