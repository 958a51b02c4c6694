// What the tests share: connections to the pqd that runs beside them, and stand-ins for bridges.
import { after } from "node:test";
import assert from "node:assert/strict";
import { headers } from "@nats-io/nats-core";
import { connect } from "@nats-io/transport-node";
import { Client } from "pqbridge";

if (!process.env.NATS_URL) throw new Error("NATS_URL is not set: expected the address of a pqd");

/** How much longer things take than on a machine that runs the tests alone. */
export const slow = Number(process.env.PQ_TEST_SLOW ?? 1);

/** How long to wait for what must happen. */
export const patience = 60_000 * slow;

let names = 0;

/** A name that no other test has. */
export const fresh = (what = "q") => `${what}-${process.pid}-${++names}`;

const connections = [];
after(async () => {
  for (const nc of connections) await nc.close();
});

export async function connection(options = {}) {
  const nc = await connect({ servers: process.env.NATS_URL, reconnectTimeWait: 20, maxReconnectAttempts: -1, ...options });
  connections.push(nc);
  return nc;
}

export const nc = await connection();
export const client = new Client(nc, { timeout: patience, askAgainAfter: Math.min(patience, 60_000) });

/** A queue of its own for a test. */
export const queue = (of = client) => of.queue(fresh());

/** Waits until something is true. */
export async function until(what, is) {
  for (const late = Date.now() + patience; !(await is()); ) {
    assert.ok(Date.now() < late, `it was not true in time that ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** The error of a promise, of a class, with a code and a reason. */
export async function fails(promise, type, code, reason = "") {
  let value;
  try {
    value = await promise;
  } catch (err) {
    assert.ok(err instanceof type, `expected ${type.name}, found ${err.stack}`);
    assert.equal(err.name, type.name);
    if (code !== undefined) assert.deepEqual([err.code, err.reason], [code, reason], err.message);
    return err;
  }
  assert.fail(`expected ${type.name}, found ${JSON.stringify(value, (_, v) => (typeof v === "bigint" ? `${v}` : v))}`);
}

/** A message for a bridge's stand-in to answer with. */
export function answer(fields, body = "") {
  const h = headers();
  for (const [name, value] of Object.entries(fields)) h.append(name, value);
  return { headers: h, body };
}

export const failure = (code, reason, text = "no") =>
  answer({ Status: `${code}`, "Nats-Service-Error": text, "Nats-Service-Error-Code": `${code}`, ...(reason ? { "PQ-Reason": reason } : {}) });

export const pushed = (fields = {}) => answer({}, JSON.stringify({ type: "io.pq.v1.push_response", stream: "q", seq: 1, id: "i", priority: 0, ...fields }));

/**
 * A client whose requests a stand-in answers: with what the function returns for a request and its
 * number, from 1. Without an answer there is none.
 */
export async function fake(respond, options = {}) {
  const [prefix, bridge] = [fresh("fake"), await connection()];
  const requests = [];
  bridge.subscribe(`${prefix}.>`, {
    callback: (_, m) => {
      const verb = m.subject.slice(prefix.length + 1);
      requests.push({ verb, reply: m.reply, headers: m.headers, body: m.string() });
      const found = m.reply ? respond(verb, requests.length, m, prefix) : undefined;
      for (const one of Array.isArray(found) ? found : found ? [found] : []) {
        bridge.publish(m.reply, one.body, { headers: one.headers, reply: one.reply });
      }
    },
  });
  await bridge.flush();
  const own = await connection();
  return { client: new Client(own, { prefix, timeout: patience, askAgainAfter: 500 * slow, ...options }), requests, prefix, bridge, nc: own };
}

/**
 * A client whose requests go through a stand-in that loses the answer to the first request of each
 * verb, after pqd has done it.
 */
export async function lossy(options = {}) {
  const [prefix, between] = [fresh("lossy"), await connection()];
  const lost = [];
  between.subscribe(`${prefix}.>`, {
    callback: async (_, m) => {
      const subject = `pq.${m.subject.slice(prefix.length + 1)}`;
      const verb = subject.split(".")[2];
      if (lost.includes(verb)) {
        between.publish(subject, m.data, { headers: m.headers, reply: m.reply });
        return;
      }
      lost.push(verb);
      await between.request(subject, m.data, { headers: m.headers, timeout: patience });
    },
  });
  await between.flush();
  return { client: new Client(await connection(), { prefix, bridgePrefix: "pq", timeout: patience, askAgainAfter: 500 * slow, ...options }), lost };
}
