// Runs the suite over WebSocket, in a page whose address names the server, and
// sends the results to where the page came from.
import { wsconnect } from "@nats-io/nats-core";
import { run } from "./suite.mjs";

const report = (results) => fetch("report", { method: "POST", body: JSON.stringify(results) });

try {
  const nc = await wsconnect({ servers: new URLSearchParams(location.search).get("server") });
  await report(await run(nc));
  await nc.close();
} catch (err) {
  await report([{ name: "connect", error: `${err.stack ?? err}` }]);
}
