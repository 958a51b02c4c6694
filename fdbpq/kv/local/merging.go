package local

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// merging lets Pebble merge tables in the background, but only after it has opened the
// store. When an open fails, Pebble releases resources that a running merge needs, and the
// merge panics.
type merging struct {
	*pebble.ConcurrencyLimitScheduler // of merges, without a goroutine that starts them
	db                                pebble.DBForCompaction

	mu      sync.Mutex
	allowed bool
	end     chan struct{} // closed to end start's goroutine
	ended   chan struct{}
}

// mergeEvery is the pause between checks whether another merge may start.
const mergeEvery = 100 * time.Millisecond

func newMerging() *merging {
	return &merging{
		ConcurrencyLimitScheduler: pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest(),
		end:                       make(chan struct{}),
		ended:                     make(chan struct{}),
	}
}

// Register implements pebble.CompactionScheduler.
func (m *merging) Register(goroutines int, db pebble.DBForCompaction) {
	m.db = db
	m.ConcurrencyLimitScheduler.Register(goroutines, db)
}

// TrySchedule implements pebble.CompactionScheduler.
func (m *merging) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.allowed {
		return false, nil
	}
	return m.ConcurrencyLimitScheduler.TrySchedule()
}

// start allows merges.
func (m *merging) start() {
	m.mu.Lock()
	m.allowed = true
	m.mu.Unlock()
	go func() {
		defer close(m.ended)
		look := time.NewTicker(mergeEvery)
		defer look.Stop()
		for {
			m.schedule()
			select {
			case <-look.C:
			case <-m.end:
				return
			}
		}
	}()
}

// schedule starts waiting merges up to the limit of concurrent ones.
func (m *merging) schedule() {
	for {
		if waiting, _ := m.db.GetWaitingCompaction(); !waiting {
			return
		}
		may, handle := m.ConcurrencyLimitScheduler.TrySchedule()
		if !may {
			return
		}
		if !m.db.Schedule(handle) {
			handle.Done()
			return
		}
	}
}

// Unregister implements pebble.CompactionScheduler.
func (m *merging) Unregister() {
	m.mu.Lock()
	started := m.allowed
	m.allowed = false
	m.mu.Unlock()
	if started {
		close(m.end)
		<-m.ended
	}
	m.ConcurrencyLimitScheduler.Unregister()
}
