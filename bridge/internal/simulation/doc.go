// Package simulation has only a test: bridges, a NATS server, a faulty store and clients
// in virtual time. The test is a program of its own because nats.go shares its timers
// between all connections of a process, and a timer of virtual time does not work
// outside.
package simulation
