package local

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// applyJob is a commit to be applied, and its transaction.
type applyJob struct {
	t *tx
	c *commit
}

// applyCommits makes commits readable, one after the other. Pebble blocks it while
// flushes fall behind, and when a new log is begun on a disk that does not answer.
// The caller that waits for the commit can give up meanwhile.
func (db *DB) applyCommits() {
	defer close(db.toSync)
	for next := range db.toApply {
		t, c := next.t, next.c
		err := db.apply(t, c)
		if err != nil {
			db.fail(err)
		}
		db.commitLock.unlock()
		if err != nil {
			t.end()
			close(c.durable)
			continue
		}
		db.stats.commits.Add(1)
		db.watches.fire(c.version, t.buf.writes.keys.entries, c.ranges)
		db.toSync <- c
		t.end()
	}
}

// apply makes the commit readable. An error leaves the store unusable. The order
// of the steps matters:
//
//   - The commit joins the list before its writes can be read, so that their readers
//     find it there and wait until it is durable.
//   - It splits gaps before its writes can be read, so that scans do not jump over
//     them.
//   - The cache of rows takes over the written rows before the writes can be read, so that
//     readers neither get nor cache the old values.
//   - It becomes the commit to pin after its writes can be read, so that a
//     transaction that pins it does not miss them.
//   - Watches fire after its writes can be read.
func (db *DB) apply(t *tx, c *commit) (err error) {
	defer func() {
		// Pebble panics when it cannot write its log.
		if p := recover(); p != nil {
			err = fmt.Errorf("writing to the store failed: %v", p)
		}
	}()
	last := db.newest.Load()
	c.version = last.version + 1
	c.since = db.opts.Now()
	last.next.Store(c)
	db.newest.Store(c)
	set, cleared := t.buf.writes.outcome()
	db.gaps.written(set, cleared, c.version)
	db.rows.write(&t.buf.writes, c.version)
	if err := db.store.ApplyNoSyncWait(c.batch, pebble.Sync); err != nil {
		return fmt.Errorf("writing to the store failed: %w", err)
	}
	db.applied.Store(c)
	db.activateWatches(t, c)
	return nil
}
