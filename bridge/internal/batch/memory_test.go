package batch_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
)

// letter is a request that takes memory.
type letter struct{ text [1 << 10]byte }

// reader does batches when it may.
type reader struct{ read chan struct{} }

func (r *reader) Begin(string) {}

func (r *reader) Work([]*letter) { <-r.read }

// Slots keep their buffers, but nothing of the requests that were served.
func TestServedRequestsAreFreed(t *testing.T) {
	t.Parallel()
	r := &reader{make(chan struct{})}
	pool := batch.New(batch.Options[*letter]{
		Limits:   batch.Limits{Requests: 3, Bytes: 1 << 20},
		Patience: batch.Patience{First: time.Hour, Then: time.Hour},
		Worker:   func(*batch.Slot[*letter]) batch.Worker[*letter] { return r },
		Size:     func(l *letter) int { return len(l.text) },
		Waited:   func(*letter) time.Duration { return 0 },
		Stuck:    func([]*letter) {},
	})
	var served []weak.Pointer[letter]
	for range 8 { // more than one batch may have, so that some stay in the line
		l := new(letter)
		served = append(served, weak.Make(l))
		pool.Submit("a", l)
	}
	close(r.read)
	for pool.Idle() < 1 {
		runtime.Gosched()
	}
	runtime.GC()
	for i, p := range served {
		if p.Value() != nil {
			t.Errorf("request %d is kept", i)
		}
	}
	runtime.KeepAlive(pool)
	pool.Stop()
	pool.Wait()
}
