package local

import (
	"fmt"
	"sync"
)

// reclaim frees the space of cleared rows. A row takes space on the disk until the record that clears it is in a
// table, too, and compacted with it. Such records are small: the records for all rows of a store fit into one memory
// table, which Pebble flushes only when it is full.
type reclaim struct {
	mu      sync.Mutex
	flushed <-chan struct{} // closed when the last flush has ended; nil: none was begun
	version uint64          // of the last commit before that flush
}

// Reclaim flushes the commits since the last call, so that compactions can free the space of cleared rows. It does
// nothing while an earlier flush is under way, or tables cannot be written.
func (db *DB) Reclaim() {
	if !db.life.enter() {
		return
	}
	defer db.life.leave()
	db.reclaim.mu.Lock()
	defer db.reclaim.mu.Unlock()
	if db.reclaim.flushed != nil {
		select {
		case <-db.reclaim.flushed:
		default:
			return
		}
	}
	newest := db.applied.Load().version
	if newest == db.reclaim.version || db.tables.err() != nil || db.failure.err() != nil {
		return
	}
	defer func() {
		// Pebble panics when it cannot write its log.
		if p := recover(); p != nil {
			db.failure.set(fmt.Errorf("writing to the store failed: %v", p))
		}
	}()
	flushed, err := db.store.AsyncFlush()
	if err != nil {
		db.background.error("flushing to free space failed", "err", err)
		return
	}
	db.reclaim.flushed, db.reclaim.version = flushed, newest
}
