// Package store opens the store of PQ_STORE, and says what is wrong with it.
//
// Guarantees:
//   - A store opens for one process. A node's copy opens for a node alone: rows written there would be missing in the log.
//   - After a write to the disk that failed, pqd answers no more requests: the process ends at once, with code 1 ([GiveUp]).
//   - An error about damage says what to do, and a store with damaged files serves what needs none of them.
package store
