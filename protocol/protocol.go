// Package protocol defines the messages between a bridge and its clients, except for subjects: the headers,
// statuses, settlement words, JSON bodies and limits of docs/protocol.md, each of them once.
//
// What one side marshals with these types, the other side reads with them. The package depends on no NATS library,
// no store and no other package of ours, so that a client contains no code of the bridge. Names and values are part
// of the protocol: there may be additions, and no changes.
package protocol

//go:generate go run github.com/pqbridge/pqbridge/internal/generate -root ..
