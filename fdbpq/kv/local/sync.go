package local

import (
	"context"
	"fmt"
	"time"
)

// maxUnsynced is more commits than Pebble accepts before it waits for the disk.
const maxUnsynced = 4096

// syncCommits waits until commits are on the disk, one after the other.
func (db *DB) syncCommits() {
	defer close(db.allSynced)
	for c := range db.toSync {
		db.syncing.Store(c)
		if err := c.batch.SyncWait(); err != nil {
			// Later transactions may have read what will never be on the disk. No
			// transaction may succeed any more.
			db.fail(fmt.Errorf("syncing the store's log failed: %w", err))
		}
		if !db.opts.NoSync {
			db.idleMarks.committed(c.version)
		}
		db.closeBatch(c.batch)
		c.batch = nil
		close(c.durable)
	}
}

// await waits until a commit and all earlier ones are on the disk. When ctx ends
// first, the error says how long it waited.
func (db *DB) await(ctx context.Context, c *commit) error {
	select {
	case <-c.durable:
	default:
		began := db.opts.Now() // c.since may be written at the same time
		select {
		case <-c.durable:
		case <-ctx.Done():
			return fmt.Errorf("the disk has not finished writing after %s: %w", db.opts.Now().Sub(began).Round(time.Millisecond), ctx.Err())
		}
	}
	if broken := db.broken.Load(); broken != nil {
		return *broken
	}
	return nil
}

// lateAfter is how long a sync may take before further commits wait. A commit that
// still waits when its context ends has certainly not happened.
const lateAfter = time.Second

// late returns the commit whose sync takes longer than lateAfter, or nil.
func (db *DB) late() *commit {
	c := db.syncing.Load()
	if c == nil || db.opts.Now().Sub(c.since) < lateAfter {
		return nil
	}
	select {
	case <-c.durable:
		return nil
	default:
		return c
	}
}
