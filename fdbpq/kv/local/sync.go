package local

import (
	"context"
	"fmt"
	"time"
)

// maxUnsynced is larger than the number of commits that Pebble accepts before it waits for the disk.
const maxUnsynced = 4096

// syncCommits waits until commits are on the disk, one after the other.
func (pipe *pipeline) syncCommits() {
	defer close(pipe.allSynced)
	for c := range pipe.toSync {
		pipe.syncing.Store(c)
		if err := c.batch.SyncWait(); err != nil {
			// Later transactions may have read data that will never be on the disk. So no transaction may succeed
			// any more.
			pipe.failure.set(fmt.Errorf("syncing the store's log failed: %w", err))
		}
		pipe.marks.committed(c.version)
		pipe.writer.closeBatch(c.batch)
		c.batch = nil
		close(c.durable)
	}
}

// await waits until a commit and all earlier ones are on the disk. When ctx ends
// first, the error says how long it waited.
func (pipe *pipeline) await(ctx context.Context, c *commit) error {
	select {
	case <-c.durable:
	default:
		began := pipe.now() // c.since may be written at the same time
		select {
		case <-c.durable:
		case <-ctx.Done():
			return fmt.Errorf("the disk has not finished writing after %s: %w", pipe.now().Sub(began).Round(time.Millisecond), ctx.Err())
		}
	}
	return pipe.failure.err()
}

// lateAfter is how long a sync may take before further commits wait. A commit that
// still waits when its context ends has certainly not happened.
const lateAfter = time.Second

// late returns the commit whose sync takes longer than lateAfter, or nil.
func (pipe *pipeline) late() *commit {
	c := pipe.syncing.Load()
	if c == nil || pipe.now().Sub(c.since) < lateAfter {
		return nil
	}
	select {
	case <-c.durable:
		return nil
	default:
		return c
	}
}

// lockCommits takes the commit lock once tables can be written and no sync is late.
func (pipe *pipeline) lockCommits(ctx context.Context) error {
	for {
		if err := pipe.lock.lock(ctx); err != nil {
			return fmt.Errorf("earlier commits still wait for the disk: %w", err)
		}
		if err := pipe.failure.err(); err != nil {
			pipe.lock.unlock()
			return err
		}
		if err := pipe.tables.err(); err != nil {
			pipe.lock.unlock()
			return err
		}
		late := pipe.late()
		if late == nil {
			return nil
		}
		pipe.lock.unlock()
		if err := pipe.await(ctx, late); err != nil {
			return err
		}
	}
}

// awaitApplied waits until a commit in the list is applied, or ctx ends.
func (pipe *pipeline) awaitApplied(ctx context.Context, c *commit) {
	if pipe.applied.Load().version >= c.version {
		return
	}
	if err := pipe.lock.lock(ctx); err == nil {
		pipe.lock.unlock()
	}
}
