// The driver of nats.js for clients/cases_test.go: node driver.mjs nats://127.0.0.1:4222
import { createInterface } from "node:readline";
import { connect } from "@nats-io/transport-node";
import { headers, NoRespondersError, RequestError, TimeoutError } from "@nats-io/nats-core";
import { jetstream, JetStreamApiError } from "@nats-io/jetstream";

const nc = await connect({ servers: process.argv[2] });
let item; // the last message with a reply subject

// Bytes are escaped as in URLs, one by one.
const escape = (bytes) => [...Buffer.from(bytes)].map((b) => "%" + b.toString(16).padStart(2, "0")).join("");
const unescape = (word) =>
  Buffer.concat(word.split(/(%[0-9A-Fa-f]{2})/).map((part) => (part[0] === "%" ? Buffer.from([parseInt(part.slice(1), 16)]) : Buffer.from(part))));
const show = (...words) => console.log(words.map((word) => escape(word)).join("\t"));

function showMessage(m) {
  if (m.reply) item = m;
  const words = ["message", m.data, m.reply ?? ""];
  for (const name of m.headers?.keys() ?? []) {
    for (const value of m.headers.values(name)) words.push(name, value);
  }
  show(...words);
}

function showError(err) {
  const is = (type) => err instanceof type || err.cause instanceof type;
  if (is(JetStreamApiError)) show("error", "refused", `${err.status}`, `${err.code}`, err.message);
  else if (is(NoRespondersError) || (err instanceof RequestError && err.isNoResponders())) show("error", "no responders", "0", "0", err.message);
  else if (is(TimeoutError)) show("error", "timeout", "0", "0", err.message);
  else show("error", "other", "0", "0", `${err}`);
}

async function run(what, subject, body, timeout, h) {
  switch (what) {
    case "publish": {
      const ack = await jetstream(nc, { timeout }).publish(subject, body, { headers: h });
      return show("stored", ack.stream, `${ack.seq}`, `${ack.duplicate ?? false}`);
    }
    case "request":
      return showMessage(await nc.request(subject, body, { timeout, headers: h }));
    case "many":
      for await (const m of await nc.requestMany(subject, body, { strategy: "sentinel", maxWait: timeout, headers: h })) showMessage(m);
      return;
    case "send":
      return nc.publish(subject, body, { headers: h });
    case "respond":
      return void item.respond(body);
  }
  throw new Error(`a message has no ${what}`);
}

for await (const line of createInterface({ input: process.stdin })) {
  const [what, subject, body, milliseconds, ...names] = line.split("\t").map(unescape);
  try {
    let h;
    for (let i = 0; i < names.length; i += 2) (h ??= headers()).append(`${names[i]}`, `${names[i + 1]}`);
    await run(`${what}`, `${subject}`, body, Number(milliseconds), h);
  } catch (err) {
    showError(err);
  }
  console.log(".");
}
await nc.close();
