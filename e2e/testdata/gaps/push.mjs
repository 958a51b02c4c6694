// Pushes every 10 ms, and prints a line for each success: node push.mjs <servers> <queue>
import { connect } from "@nats-io/transport-node";
import { Client } from "./client/src/index.js";

const [servers, queue] = process.argv.slice(2);
const nc = await connect({
  servers: servers.split(","), noRandomize: true, maxReconnectAttempts: -1, reconnectTimeWait: 100, timeout: 500, pingInterval: 400, maxPingOut: 2,
});
const jobs = new Client(nc).queue(queue);
for (;;) {
  try {
    await jobs.push("x");
    console.log("pushed");
  } catch (err) {
    console.error(err);
  }
  await new Promise((wake) => setTimeout(wake, 10));
}
