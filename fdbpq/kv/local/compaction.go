package local

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

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
