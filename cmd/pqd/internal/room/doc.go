// Package room says what pqd refuses when the disk of its store is nearly full, so that requests that make room always
// have space.
//
// Guarantees:
//   - With less than PQ_MIN_FREE free, the store takes no new items. A push does not wait for a look at the disk.
//   - With less than half of that free, only requests that make room are served.
//   - An embedded store that takes no items frees the space of drained and purged items.
//   - A disk that cannot be looked at refuses nothing here: /readyz reports it.
//
// [Store] does this for an embedded store. A node of several asks [Full] and [Exhausted].
package room
