// Package broker is the NATS server that runs inside pqd.
//
// Guarantees:
//   - It listens for other machines, be they clients, routes, gateways or monitors, only where they need a login, or where
//     PQ_UNPROTECTED says that they need none.
//   - pqd's own connection does not hold up the server, and is not cut off while the bridge is busy.
//   - Clients that do not read take a bounded part of the memory: the connections that take most are closed.
//   - Of a node of PQ_CLUSTER: only pqd's own user reaches the log. Damaged files of a group are set aside only when
//     all other nodes have what was committed.
package broker
