// Package room says what pqd refuses when the disk of its store is nearly full, so that requests that make room always
// have space.
//
// Guarantees:
//   - With less than PQ_MIN_FREE free, the store takes no new items. A push does not wait for a look at the disk.
//   - With less than half of that free, only requests that make room are served. With less than a quarter, no item is written
//     again: a lease that ends waits, and settlements that keep the item are refused.
//   - Beside all that, a store has a spare file, which is given up when a write finds no room, also at a start. With hardly more
//     room than that, only requests that end items are served, and the file is made again before anything else gets its room.
//   - An embedded store that takes no items frees the space of drained and purged items.
//   - A disk that cannot be looked at refuses nothing here: /readyz reports it.
//
// [Store] does this for an embedded store, [Copy] for the copy of a node of several.
package room
