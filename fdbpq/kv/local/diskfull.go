package local

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// tableHealth records whether Pebble can write its tables. While it cannot, because the disk
// is full, the store refuses commits. Otherwise Pebble would accept more of them until
// memory and old logs are full, and then block all commits, or fail to make a new log.
type tableHealth struct {
	background *backgroundLog
	closing    chan struct{} // closed when Create need not pause any more

	flush   atomic.Pointer[error] // error of the last flush, or nil
	compact atomic.Pointer[error] // error of the last compaction, or nil
}

// retryPause delays retries of Pebble, which retries at once.
const retryPause = time.Second

// err returns why commits are refused, or nil.
func (s *tableHealth) err() error {
	if err := s.flush.Load(); err != nil {
		return fmt.Errorf("the store's tables cannot be written: %w", *err)
	}
	return nil
}

// flushed records the result of a flush. Pebble reports an error when there was nothing
// to write because all of it had been cleared.
func (s *tableHealth) flushed(err error) {
	switch {
	case err != nil && !strings.HasSuffix(err.Error(), "empty table"):
		s.flush.Store(&err)
		s.background.error("the store's tables cannot be written: commits are refused until they can be", "err", err)
	case s.flush.Swap(nil) != nil:
		s.background.recovered("the store's tables are written again")
	}
}

// compacted records the result of a compaction.
func (s *tableHealth) compacted(err error) {
	switch {
	case errors.Is(err, pebble.ErrCancelledCompaction):
	case err != nil:
		s.compact.Store(&err)
		s.background.error("the store's tables cannot be compacted", "err", err)
	case s.compact.Swap(nil) != nil:
		s.background.recovered("the store's tables are compacted again")
	}
}

// knows reports whether err was recorded.
func (s *tableHealth) knows(err error) bool {
	for _, noted := range []*error{s.flush.Load(), s.compact.Load()} {
		if noted != nil && errors.Is(err, *noted) {
			return true
		}
	}
	return false
}

// tableDisk is a file system that pauses before it creates a table, if the last one
// could not be written.
type tableDisk struct {
	vfs.FS
	tables *tableHealth
}

// Unwrap implements vfs.FS.
func (d tableDisk) Unwrap() vfs.FS { return d.FS }

// Create implements vfs.FS.
func (d tableDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") && (d.tables.flush.Load() != nil || d.tables.compact.Load() != nil) {
		pause := time.NewTimer(retryPause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-d.tables.closing:
		}
	}
	return d.FS.Create(name, category)
}

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

// compaction lets Pebble compact tables in the background, but only after it has opened the
// store. When an open fails, Pebble releases resources that a running compaction needs, and the
// compaction panics.
type compaction struct {
	*pebble.ConcurrencyLimitScheduler // of compactions, without a goroutine that starts them
	db                                pebble.DBForCompaction

	mu      sync.Mutex
	allowed bool
	end     chan struct{} // closed to end start's goroutine
	ended   chan struct{}
}

// compactEvery is the pause between checks whether another compaction may start.
const compactEvery = 100 * time.Millisecond

func newCompaction() *compaction {
	return &compaction{
		ConcurrencyLimitScheduler: pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest(),
		end:                       make(chan struct{}),
		ended:                     make(chan struct{}),
	}
}

// Register implements pebble.CompactionScheduler.
func (c *compaction) Register(goroutines int, db pebble.DBForCompaction) {
	c.db = db
	c.ConcurrencyLimitScheduler.Register(goroutines, db)
}

// TrySchedule implements pebble.CompactionScheduler.
func (c *compaction) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.allowed {
		return false, nil
	}
	return c.ConcurrencyLimitScheduler.TrySchedule()
}

// start allows compactions.
func (c *compaction) start() {
	c.mu.Lock()
	c.allowed = true
	c.mu.Unlock()
	go func() {
		defer close(c.ended)
		look := time.NewTicker(compactEvery)
		defer look.Stop()
		for {
			c.schedule()
			select {
			case <-look.C:
			case <-c.end:
				return
			}
		}
	}()
}

// schedule starts waiting compactions up to the limit of concurrent ones.
func (c *compaction) schedule() {
	for {
		if waiting, _ := c.db.GetWaitingCompaction(); !waiting {
			return
		}
		may, handle := c.ConcurrencyLimitScheduler.TrySchedule()
		if !may {
			return
		}
		if !c.db.Schedule(handle) {
			handle.Done()
			return
		}
	}
}

// Unregister implements pebble.CompactionScheduler.
func (c *compaction) Unregister() {
	c.mu.Lock()
	started := c.allowed
	c.allowed = false
	c.mu.Unlock()
	if started {
		close(c.end)
		<-c.ended
	}
	c.ConcurrencyLimitScheduler.Unregister()
}
