//go:build overload || fdb

package main_test

import (
	"bufio"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	answer, err := http.Get(p.HTTP + "/metrics")
	if err != nil {
		t.Error(err)
		return 0
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); slices.Contains(fields, "process_resident_memory_bytes") && fields[0] != "#" {
			bytes, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				t.Error(err)
			}
			return int64(bytes)
		}
	}
	t.Error(fmt.Errorf("no process_resident_memory_bytes at /metrics"))
	return 0
}
