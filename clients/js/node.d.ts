import type { NatsConnection, NodeConnectionOptions } from "@nats-io/transport-node";

/**
 * Connects to NATS, as `connect` of `@nats-io/transport-node` does, which has to be installed beside this package. Two defaults differ:
 *
 * - `servers`, where neither they nor a `port` are given: those of the environment variable `NATS_URL`, with commas between them. Of a login in
 *   one of these addresses it makes `user` and `pass`, or `token`, unless the options say who logs in, and of `tls://` the option `tls`.
 * - `maxReconnectAttempts`: -1, so it never gives up a connection that it had.
 */
export function connect(options?: NodeConnectionOptions): Promise<NatsConnection>;
