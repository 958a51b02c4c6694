package local

import (
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
	Unflushed uint64 // bytes in the log whose rows no table has: the next flushes take as many more on the disk
}

// Metrics returns the numbers as they are now.
func (db *DB) Metrics() (Metrics, error) {
	if !db.life.enter() {
		return Metrics{}, kv.ErrClosed
	}
	defer db.life.leave()
	store := db.store.Metrics()
	return Metrics{
		Commits:   db.commits.count.Load(),
		Conflicts: db.stats.conflicts.Load(),
		TooOld:    db.stats.tooOld.Load(),
		Stalls:    db.reports.stalls.Load(),
		Gaps:      db.gaps.size(),
		DiskBytes: store.DiskSpaceUsage(),
		Unflushed: store.WAL.Size,
	}, nil
}
