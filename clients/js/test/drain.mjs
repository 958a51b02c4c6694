// A worker whose items take until it hears SIGTERM: it begins two, and ends in order.
import { Client } from "pqbridge";
import { connect } from "@nats-io/transport-node";

const nc = await connect({ servers: process.env.NATS_URL });
const terminated = new Promise((resolve) => process.once("SIGTERM", resolve));
console.log("ready");
const consumer = new Client(nc).queue(process.argv[2]).consume(async (item, signal) => {
  console.log(`began ${item.string()}`);
  await terminated;
  await new Promise((resolve) => setTimeout(resolve, 9000)); // longer than the lease
  console.log(`${signal.aborted ? "lost" : "finished"} ${item.string()}`);
}, { concurrency: 2, lease: "8s" });
await terminated;
await consumer.drain();
await nc.close();
console.log("drained");
