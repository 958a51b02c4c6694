//go:build overload || fdb

package main_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/testenv"
)

// watchMemory returns a function that says how much memory pqd had at most.
func watchMemory(t *testing.T, p *testenv.Process) func() int64 {
	var peak atomic.Int64
	look := func() {
		if now := resident(t, p); now > peak.Load() {
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

// resident is pqd's memory, as its metrics say.
func resident(t *testing.T, p *testenv.Process) int64 {
	_, page := get(t, p.HTTP+"/metrics")
	return int64(metric(t, page, "process_resident_memory_bytes"))
}
