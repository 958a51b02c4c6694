package local

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// pipeline applies commits and syncs them.
type pipeline struct {
	lock      *mutex                 // held by a commit until it is readable
	toApply   chan applyJob          // the commit that holds the lock
	toSync    chan *commit           // readable commits in their order
	syncing   atomic.Pointer[commit] // the commit that syncCommits waits for
	allSynced chan struct{}          // closed when all commits are synced and no more can follow
	count     atomic.Uint64          // commits applied
	clears    atomic.Uint64          // of these, the ones that cleared rows

	*history
	store   *pebble.DB
	writer  *writer
	gaps    *gapCache
	rows    *rowCache
	watches *watchSet
	marks   *syncMarks
	tables  *tableHealth
	failure *failure
	now     func() time.Time
}

// applyJob is a commit to be applied, and its transaction.
type applyJob struct {
	t *tx
	c *commit
}

func (pipe *pipeline) start() {
	go pipe.applyCommits()
	go pipe.syncCommits()
}

// end waits until all commits are synced, unless the store fails. No more can follow.
func (pipe *pipeline) end() error {
	close(pipe.toApply)
	if pipe.failure.err() == nil {
		<-pipe.allSynced
	}
	return pipe.failure.err()
}

// applyCommits makes commits readable, one after the other. Pebble blocks it while
// flushes fall behind, and when a new log is begun on a disk that does not answer.
// The caller that waits for the commit can give up meanwhile.
func (pipe *pipeline) applyCommits() {
	defer close(pipe.toSync)
	for next := range pipe.toApply {
		t, c := next.t, next.c
		err := pipe.apply(t, c)
		if err != nil {
			pipe.failure.set(err)
		}
		pipe.lock.unlock()
		if err != nil {
			t.end()
			close(c.durable)
			continue
		}
		pipe.count.Add(1)
		pipe.watches.fire(c.version, t.buf.writes.keys.entries, c.ranges)
		pipe.toSync <- c
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
func (pipe *pipeline) apply(t *tx, c *commit) (err error) {
	defer func() {
		// Pebble panics when it cannot write its log.
		if p := recover(); p != nil {
			err = fmt.Errorf("writing to the store failed: %v", p)
		}
	}()
	last := pipe.newest.Load()
	c.version = last.version + 1
	c.since = pipe.now()
	last.next.Store(c)
	pipe.newest.Store(c)
	set, cleared := t.buf.writes.outcome()
	pipe.gaps.written(set, cleared, c.version)
	pipe.rows.write(&t.buf.writes, c.version)
	if err := pipe.store.ApplyNoSyncWait(c.batch, pebble.Sync); err != nil {
		return fmt.Errorf("writing to the store failed: %w", err)
	}
	pipe.applied.Store(c)
	pipe.noteClears(&t.buf.writes)
	pipe.watches.activate(t.takeWatches(), t.pinned, c)
	return nil
}

// noteClears notes that a commit has cleared rows, once they are cleared.
func (pipe *pipeline) noteClears(w *writeSet) {
	if len(w.erasing)+len(w.cleared) > 0 {
		pipe.clears.Add(1)
	}
}
