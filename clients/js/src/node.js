// Connections of Node.js: a module of its own, because a page in a browser has nothing that it imports.
import { connect as dial } from "@nats-io/transport-node";

/**
 * @param {import("@nats-io/transport-node").NodeConnectionOptions} [given]
 */
export async function connect(given) {
  const options = Object.fromEntries(Object.entries(given ?? {}).filter(([, value]) => value !== undefined));
  const known = "servers" in options || "port" in options;
  return dial({ maxReconnectAttempts: -1, ...(known ? {} : environment(options)), ...options });
}

/**
 * What NATS_URL says, read as pq and pqd do: addresses with commas between them. nats.js takes no login of an address, and goes
 * without TLS to tls:// where the server does.
 * @param {object} options that go before it
 */
function environment(options) {
  const { env } = /** @type {{process: {env: Record<string, string | undefined>}}} */ (/** @type {unknown} */ (globalThis)).process;
  /** @type {string[]} */
  const servers = [];
  /** @type {import("@nats-io/transport-node").NodeConnectionOptions} */
  const found = {};
  const own = ["user", "token", "authenticator"].some((name) => name in options);
  for (const [i, address] of (env.NATS_URL ?? "").split(",").map((one) => one.trim()).entries()) {
    if (address === "") continue;
    const { scheme = "nats", login = "", server } = /^(?:(?<scheme>[a-z]+):\/\/)?(?:(?<login>[^@/?#]+)@)?(?<server>[^@/?#]+)\/?$/.exec(address)?.groups ?? {};
    // The error repeats no part of an address, which may have a password.
    if (server === undefined || !schemes.includes(scheme)) throw new TypeError(`address ${i + 1} of NATS_URL is malformed: expected nats://<host>:<port>`);
    servers.push(`${scheme}://${server}`);
    if (scheme === "tls") found.tls = {};
    if (login !== "" && !own) Object.assign(found, loginOf(login));
  }
  return servers.length > 0 ? { ...found, servers } : {};
}

const schemes = ["nats", "tls", "ws", "wss"];

/**
 * A user with a password, or a token.
 * @param {string} text
 */
function loginOf(text) {
  const [first = "", ...rest] = text.split(":").map(decodeURIComponent);
  return rest.length > 0 ? { user: first, pass: rest.join(":") } : { token: first };
}
