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
	pool := New(Options[int]{
		Limits:   Limits{Requests: 10, Bytes: 10},
		Patience: Patience{First: time.Hour, Then: time.Hour},
		Worker:   func(*Slot[int]) Worker[int] { return held{end} },
		Size:     func(int) int { return 1 },
		Waited:   func(int) time.Duration { return 0 },
	})
	const keys = 3 * maxIdle
	for i := range keys {
		pool.Submit(fmt.Sprint("key-", i), i)
	}
	if n := len(pool.active); n != keys {
		t.Errorf("%d keys have work, expected %d", n, keys)
	}
	close(end)
	pool.Stop()
	pool.Wait()
	if len(pool.active) > 0 || len(pool.lines) > maxIdle {
		t.Errorf("%d keys have work, and %d lines are kept; expected none, and %d at most", len(pool.active), len(pool.lines), maxIdle)
	}
}
