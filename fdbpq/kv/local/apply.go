package local

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// turn is a commit that comes next, and the transaction that it is of.
type applyJob struct {
	t *tx
	c *commit
}

// applyCommits makes commits readable, one after the other. The store holds it
// up when it cannot keep pace with writing to the disk, or begins a new log on a
// disk that does not answer; whoever waits for the commit can give up meanwhile.
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
//   - The commit is in the list before its writes can be read. So whoever reads
//     them finds it there, and knows what to wait for.
//   - It has split the gaps before its writes can be read. So whoever reads
//     them does not jump over them.
//   - The cache of rows has forgotten what it writes before that can be read. So
//     whoever reads it is not told what was there before, nor puts that there.
//   - It becomes the commit to pin after its writes can be read. So whoever
//     pins it does not miss them.
//   - Watches fire after its writes can be read.
func (db *DB) apply(t *tx, c *commit) (err error) {
	defer func() {
		// That is how the store reports that it cannot write its log.
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
	db.rows.write(&t.buf.writes.keys, t.buf.writes.cleared, c.version)
	if err := db.store.ApplyNoSyncWait(c.batch, pebble.Sync); err != nil {
		return fmt.Errorf("writing to the store failed: %w", err)
	}
	db.applied.Store(c)
	db.activateWatches(t, c)
	return nil
}
