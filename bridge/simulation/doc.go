// Package simulation has no code but a test: bridges, a NATS server, a store
// that misbehaves and clients in virtual time. The test is a program of its own
// because nats.go shares its timers between all connections of a process, and a
// timer of virtual time is of no use outside.
package simulation
