// Connections of Node.js, and what the environment says of them.
import { test } from "node:test";
import assert from "node:assert/strict";
import { createServer } from "node:net";
import { connect } from "pqbridge/node";

const { NATS_URL } = process.env;

/** What a client says as it connects to a stand-in for a NATS server, where NATS_URL is what the function makes of its address. */
async function said(t, url, options) {
  let heard;
  const server = createServer((socket) => {
    socket.write(`INFO ${JSON.stringify({ server_id: "s", version: "2.12.0", proto: 1, headers: true, max_payload: 1000 })}\r\n`);
    socket.on("data", (data) => {
      const found = /^CONNECT (.*)\r\n/m.exec(data);
      if (found) heard = JSON.parse(found[1]);
      if (/^PING\r$/m.test(data)) socket.write("PONG\r\n");
    });
    socket.on("error", () => {});
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = `127.0.0.1:${server.address().port}`;
  t.after(() => server.close());
  const nc = await where(url(address), () => connect(typeof options === "function" ? options(server.address().port) : options));
  assert.equal(nc.options.maxReconnectAttempts, options?.maxReconnectAttempts ?? -1);
  await nc.close();
  return { user: heard.user, pass: heard.pass, token: heard.auth_token };
}

/** Does something while NATS_URL is a text, or unset. */
async function where(url, act) {
  if (url === undefined) delete process.env.NATS_URL;
  else process.env.NATS_URL = url;
  try {
    return await act();
  } finally {
    process.env.NATS_URL = NATS_URL;
  }
}

const nobody = { user: undefined, pass: undefined, token: undefined };

test("it connects to the servers of NATS_URL", async () => {
  for (const url of [NATS_URL, NATS_URL.replace("nats://", ""), ` nats://127.0.0.1:1 ,, ${NATS_URL}/`]) {
    const nc = await where(url, () => connect());
    assert.equal(nc.getServer(), new URL(NATS_URL).host, url);
    await nc.close();
  }
});

test("servers, or a port, that are given go before", async (t) => {
  for (const options of [{ servers: NATS_URL }, { servers: [NATS_URL] }]) {
    await (await where("nonsense://", () => connect(options))).close();
    await (await where(undefined, () => connect(options))).close();
  }
  assert.deepEqual(await said(t, () => "nonsense://", (port) => ({ port })), nobody);
  assert.deepEqual(await said(t, (address) => address, { servers: undefined }), nobody);
});

test("the login of an address is that of the connection", async (t) => {
  assert.deepEqual(await said(t, (address) => `nats://${address}`), nobody);
  assert.deepEqual(await said(t, (address) => `nats://ann:a%40b%2Cc@${address}`), { user: "ann", pass: "a@b,c", token: undefined });
  assert.deepEqual(await said(t, (address) => `127.0.0.1:1,secret@${address}`), { ...nobody, token: "secret" });
  assert.deepEqual(await said(t, (address) => `nats://ann:secret@${address}`, { user: "bob", pass: "own" }), { user: "bob", pass: "own", token: undefined });
  assert.deepEqual(await said(t, (address) => `nats://ann:secret@${address}`, { token: "own", maxReconnectAttempts: 3 }), { ...nobody, token: "own" });
});

test("tls:// takes no server without TLS", async (t) => {
  await assert.rejects(said(t, (address) => `tls://${address}`), /tls/);
  assert.deepEqual(await said(t, (address) => `tls://${address}`, { tls: null }), nobody);
});

test("an address that is none is refused, and not repeated", async () => {
  for (const url of ["http://127.0.0.1:4222", "nats://ann:secret/@127.0.0.1", "nats://", "127.0.0.1:1,nats://ann:secret@", "nats://ann:secret?@b"]) {
    await assert.rejects(where(url, () => connect()), (err) => err instanceof TypeError && /^address [12] of NATS_URL is malformed: expected nats:\/\//.test(err.message) && !/secret/.test(err.stack), url);
  }
});
