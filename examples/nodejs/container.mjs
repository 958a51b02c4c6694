// A worker for a container, with the JavaScript client: it does the jobs of one queue, says how it is, and ends in
// order on SIGTERM.
//
//   npm pack ../../clients/js && npm install ./pqbridge-0.1.0.tgz && node container.mjs
//
// NATS_URL, NATS_USER and NATS_PASSWORD say where NATS is, QUEUE and CONCURRENCY what to do, HEALTH_PORT where to ask
// how the worker is: /healthz for its life, /readyz for whether it takes jobs. Give the container more time to stop
// than the grace below.
import { createServer } from "node:http";
import { Client, GiveUp } from "pqbridge";
import { connect } from "pqbridge/node";

const { NATS_USER, NATS_PASSWORD, QUEUE = "jobs", CONCURRENCY = "4", HEALTH_PORT = "8080" } = process.env;
const grace = "20s";

let [connected, working, stopping] = [false, true, false];
const health = createServer(({ url }, response) => {
  const well = url === "/readyz" ? connected && working && !stopping : working;
  response.writeHead(well ? 200 : 503).end(well ? "ok\n" : stopping ? "stopping\n" : connected ? "ended\n" : "no connection to NATS\n");
}).listen(Number(HEALTH_PORT));

const login = NATS_USER ? { user: NATS_USER, pass: NATS_PASSWORD, inboxPrefix: `_INBOX.${NATS_USER}` } : {};
const nc = await connect({ name: "worker", ...login, waitOnFirstConnect: true });
connected = true;
(async () => {
  for await (const { type } of nc.status()) {
    if (type === "disconnect" || type === "reconnect") connected = type === "reconnect";
  }
})();

const worker = new Client(nc).queue(QUEUE).consume(work, {
  concurrency: Number(CONCURRENCY),
  onError: (err, item) => console.error(item ? `${item.id}: ${err.message}` : err.message),
});
for (const signal of ["SIGTERM", "SIGINT"]) {
  process.on(signal, () => {
    stopping = true;
    worker.drain({ grace }).catch(() => {}); // which is told below
  });
}
try {
  await worker.closed;
} catch (err) {
  console.error(err.message); // it cannot go on
  process.exitCode = 1;
}
working = false;
await nc.close();
health.close();

// A job says what to do, as in "resize cat.png". Give signal to whatever takes long: it aborts when the job is no longer
// this worker's, or the grace is over.
async function work(item, signal) {
  const [verb, object] = item.string().split(" ");
  if (!object) throw new GiveUp(`job "${item.string()}": expected a verb and an object`);
  signal.throwIfAborted();
  console.log(`${verb} ${object}: done, priority ${item.priority}`);
}
