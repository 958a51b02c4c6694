package local

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
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

// idleMarkDelay is the time from the last commit to the idle mark.
const idleMarkDelay = time.Second

// syncMarks writes marks into the log and the note. It writes an idle mark when there was no
// commit for idleMarkDelay.
type syncMarks struct {
	off   bool // the store does not sync, or must not change
	delay time.Duration
	timer *time.Timer
	armed atomic.Bool   // the timer is set
	after atomic.Uint64 // the newest commit when it was set

	*history
	store      *pebble.DB
	disk       *logs.Disk
	life       *lifetime
	failure    *failure
	background *backgroundLog
}

func (m *syncMarks) start() {
	m.delay = idleMarkDelay
	m.timer = time.AfterFunc(idleMarkDelay, m.writeIdle)
	m.timer.Stop()
}

// manifestWritten sets the timer after the manifest was written.
func (m *syncMarks) manifestWritten() {
	if newest := m.applied.Load(); newest != nil {
		m.committed(newest.version)
	}
}

// committed sets the timer after a commit, unless it is set.
func (m *syncMarks) committed(version uint64) {
	if !m.off && !m.armed.Load() && m.armed.CompareAndSwap(false, true) {
		m.after.Store(version)
		m.timer.Reset(m.delay)
	}
}

func (m *syncMarks) writeIdle() {
	if !m.life.enter() {
		return
	}
	defer m.life.leave()
	m.armed.Store(false) // a commit from here on sets the timer again
	if newest := m.applied.Load().version; newest != m.after.Load() {
		m.committed(newest)
		m.note()
		return
	}
	if err := m.write(); err != nil {
		m.failure.set(err)
		return
	}
	m.note()
}

// write writes a mark into the log and syncs it.
func (m *syncMarks) write() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("writing to the store failed: %v", p)
		}
	}()
	if err := m.store.LogData(m.disk.Synced().Append(nil), pebble.Sync); err != nil {
		return fmt.Errorf("writing to the store failed: %w", err)
	}
	return nil
}

// note writes down how far log and manifest are synced. A store without the note works as well, but does not notice
// that the end of its log is lost.
func (m *syncMarks) note() {
	if m.off {
		return
	}
	if err := m.disk.WriteNote(); err != nil {
		m.background.warn("noting how far the log is synced failed", "err", err)
	}
}
