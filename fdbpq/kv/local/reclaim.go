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
	version uint64          // of the last commit before that flush
	cleared uint64          // commits before it that cleared rows

	*history
	commits    *pipeline
	store      *pebble.DB
	tables     *tableHealth
	failure    *failure
	background *backgroundLog
}

// flush begins a flush, unless there is nothing to flush, or one is under way. needed: it is only worth it if rows were cleared since
// the last one.
func (r *reclaim) flush(needed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flushed != nil {
		select {
		case <-r.flushed:
		default:
			return
		}
	}
	newest, cleared := r.applied.Load().version, r.commits.clears.Load()
	if newest == r.version || needed && cleared == r.cleared || r.tables.err() != nil || r.failure.err() != nil {
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
	r.flushed, r.version, r.cleared = flushed, newest, cleared
}
