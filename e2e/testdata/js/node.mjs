// Runs the suite over TCP: node node.mjs nats://127.0.0.1:4222
import { connect } from "@nats-io/transport-node";
import { run } from "./suite.mjs";

const nc = await connect({ servers: process.argv[2] });
console.log(JSON.stringify(await run(nc)));
await nc.close();
