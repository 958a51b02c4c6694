// Package protocol is what a bridge and its clients say to each other besides
// subjects: the headers, statuses, settlement words, JSON bodies and limits of
// docs/protocol.md, each of them once.
//
// What one side marshals with these types, the other side reads with them. The
// package depends on no NATS library, no store and no other package of ours, so
// that a client carries nothing of the bridge. Names and values are part of the
// protocol: they may be added to, and never change.
package protocol
