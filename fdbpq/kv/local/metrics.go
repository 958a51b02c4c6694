package local

import (
	"sync/atomic"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Metrics are for operators.
type Metrics struct {
	Commits   uint64 // committed transactions that wrote something
	Conflicts uint64 // runs of closures repeated after a conflict
	TooOld    uint64 // runs of closures repeated because they took too long
	Stalls    uint64 // times that all commits waited because flushes fell behind
	Gaps      int    // ranges known to be empty
	DiskBytes uint64 // used by the store's files
}

// Metrics returns the numbers as they are now.
func (db *DB) Metrics() (Metrics, error) {
	if !db.life.enter() {
		return Metrics{}, kv.ErrClosed
	}
	defer db.life.leave()
	return Metrics{
		Commits:   db.stats.commits.Load(),
		Conflicts: db.stats.conflicts.Load(),
		TooOld:    db.stats.tooOld.Load(),
		Stalls:    db.stats.stalls.Load(),
		Gaps:      db.gaps.size(),
		DiskBytes: db.store.Metrics().DiskSpaceUsage(),
	}, nil
}

type counts struct {
	commits, conflicts, tooOld, stalls, skipped atomic.Uint64
}
