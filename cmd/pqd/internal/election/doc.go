// Package election replaces a lost leader of the embedded NATS servers' Raft groups at once.
//
// A server waits 4 to 9 seconds for a silent leader before it calls an election. Shorter timers would call elections
// whenever a disk stalls. pqd knows earlier and better which node is lost, so it tells one of the remaining servers
// to campaign. Who wins is decided by Raft alone: a needless campaign costs an election, and nothing else.
//
// nats-server has no exported way to call an election, so the package links to a method and two variables of it
// (reach.go). The build tag noelection leaves that out; pqd then waits for the timers of the servers.
package election
