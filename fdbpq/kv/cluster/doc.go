// Package cluster is the seam of the replicated engine: what the engine asks of a
// replicated log that exists already, such as a JetStream stream, and of messages
// between the processes that keep a copy of one store.
package cluster
