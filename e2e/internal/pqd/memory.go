package pqd

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/testenv"
)

// WatchMemory returns a function that says how much memory pqd had at most.
func WatchMemory(t *testing.T, p *testenv.Process) func() int64 {
	var peak atomic.Int64
	look := func() {
		if now := Resident(t, p); now > peak.Load() {
			peak.Store(now)
		}
	}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				look()
			}
		}
	})
	stop := sync.OnceFunc(func() {
		close(ended)
		wg.Wait()
	})
	t.Cleanup(stop)
	return func() int64 {
		stop()
		return peak.Load()
	}
}

// Resident is pqd's memory, as its metrics say.
func Resident(t *testing.T, p *testenv.Process) int64 {
	_, page := Get(t, p.HTTP+"/metrics")
	return int64(Metric(t, page, "process_resident_memory_bytes"))
}
