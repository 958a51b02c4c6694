package local

import (
	"context"
	"fmt"
	"time"
)

// maxUnsynced is more than the store takes before it waits for the disk.
const maxUnsynced = 4096

// syncCommits waits until commits are on the disk, one after the other.
func (db *DB) syncCommits() {
	defer close(db.allSynced)
	for c := range db.toSync {
		db.syncing.Store(c)
		if err := c.batch.SyncWait(); err != nil {
			// What later transactions have read is perhaps not on disk and never
			// will be. Nothing may be answered any more.
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

// await waits until a commit, and with it every earlier one, is on disk. When
// ctx ends first it says how long it has waited.
func (db *DB) await(ctx context.Context, c *commit) error {
	select {
	case <-c.durable:
	default:
		began := db.opts.Now() // c.since may be about to be written
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

// syncPatience is how long the disk may take before no more is given to it. What
// is not given to it has certainly not happened when its caller gives up.
const lateAfter = time.Second

// late returns a commit that the disk has taken longer for, if there is one.
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
