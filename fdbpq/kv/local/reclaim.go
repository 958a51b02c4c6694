package local

import (
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// reclaim frees the space of cleared rows. A row takes space on the disk until the record that clears it is in a
// table, too, and compacted with it. Such records are small: the records for all rows of a store fit into one memory
// table, which Pebble flushes only when it is full.
type reclaim struct {
	mu      sync.Mutex
	flushed <-chan struct{} // closed when the last flush has ended; nil: none was begun
	before  uint64          // commits that had cleared rows when it began

	commits    *pipeline
	store      *pebble.DB
	tables     *tableHealth
	failure    *failure
	background *backgroundLog
}

// flush begins a flush, unless no row was cleared since the last one, or that is under way. Other commits can wait in memory: on a
// full disk a flush may take the last room.
func (r *reclaim) flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flushed != nil {
		select {
		case <-r.flushed:
		default:
			return
		}
	}
	cleared := r.commits.clears.Load()
	if cleared == r.before || r.tables.err() != nil || r.failure.err() != nil {
		return
	}
	defer func() {
		// Pebble panics when it cannot write its log.
		if p := recover(); p != nil {
			r.failure.set(fmt.Errorf("writing to the store failed: %v", p))
		}
	}()
	flushed, err := r.store.AsyncFlush()
	if err != nil {
		r.background.error("flushing to free space failed", "err", err)
		return
	}
	r.flushed, r.before = flushed, cleared
}
