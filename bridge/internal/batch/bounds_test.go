package batch

import (
	"fmt"
	"testing"
	"time"
)

// held is a worker whose batches end when the test says so.
type held struct{ end chan struct{} }

func (held) Begin(string) {}
func (h held) Work([]int) { <-h.end }

// Keys without work leave nothing behind but some lines to be used again.
func TestLinesAreForgotten(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	lanes := New(Options[int]{
		Limits:   Limits{Requests: 10, Bytes: 10},
		Patience: Patience{First: time.Hour, Then: time.Hour},
		Worker:   func(*Lane[int]) Worker[int] { return held{end} },
		Size:     func(int) int { return 1 },
		Waited:   func(int) time.Duration { return 0 },
	})
	const keys = 3 * maxIdle
	for i := range keys {
		lanes.Submit(fmt.Sprint("key-", i), i)
	}
	if n := len(lanes.active); n != keys {
		t.Errorf("%d keys have work, expected %d", n, keys)
	}
	close(end)
	lanes.Stop()
	lanes.Wait()
	if len(lanes.active) > 0 || len(lanes.lines) > maxIdle {
		t.Errorf("%d keys have work, and %d lines are kept; expected none, and %d at most", len(lanes.active), len(lanes.lines), maxIdle)
	}
}
