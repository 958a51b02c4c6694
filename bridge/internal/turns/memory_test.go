package turns

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
)

// letter is a request that takes memory.
type letter struct{ text [1 << 10]byte }

// reader is a part that does nothing, once it may.
type reader struct {
	Simple[*letter, struct{}]
	may chan struct{}
}

func (r *reader) Open(_ Start, letters []*letter)             { r.Keep(letters) }
func (*reader) Plan([]*letter) (int, error)                   { return 0, nil }
func (*reader) Ahead(struct{})                                {}
func (r *reader) Do(struct{}, *Limits) (int, error)           { <-r.may; return 0, nil }
func (*reader) Ran() (sort, n int)                            { return 0, 0 }
func (*reader) Close(error)                                   {}
func (*reader) Common(error) bool                             { return false }
func (*reader) Answer(letters []*letter, _ error) (int, bool) { return len(letters), false }

// newReader returns turns of letters that are read when they may.
func newReader(limits batch.Limits, patience time.Duration) (ts *Turns[*letter, struct{}], may chan struct{}) {
	may = make(chan struct{})
	return New(Options[*letter, struct{}]{
		Limits: limits, Turns: 1, Slow: time.Hour, Patience: batch.Patience{First: patience, Then: patience},
		Overlap: Overlap[*letter]{Turns: 1, Least: 2 * time.Second, Source: func(l *letter) string { return string(l.text[:1]) }},
		Part:    func(int) Part[*letter, struct{}] { return &reader{may: may} },
		Update:  func(fn func(struct{}) error) error { return fn(struct{}{}) },
		Outage:  func(error) bool { return false },
		Ran:     func(map[int]int, time.Duration) {},
		Weight:  func(*letter) int { return 1 },
		Size:    func(l *letter) int { return len(l.text) },
		Waited:  func(*letter) time.Duration { return patience },
		Stuck:   func([]*letter) {},
	}), may
}

// Turns keep their buffers, but nothing of the requests that were served.
func TestServedRequestsAreFreed(t *testing.T) {
	t.Parallel()
	ts, may := newReader(batch.Limits{Requests: 8, Bytes: 1 << 20}, time.Hour)
	var served []weak.Pointer[letter]
	for i := range 40 { // more than one turn may have, of one line and of many
		l := new(letter)
		served = append(served, weak.Make(l))
		ts.Submit(Key{Queue: fmt.Sprint("line-", max(20, i))}, l)
	}
	close(may)
	for ts.Idle() < 1 {
		runtime.Gosched()
	}
	runtime.GC()
	for i, p := range served {
		if p.Value() != nil {
			t.Errorf("request %d is kept", i)
		}
	}
	runtime.KeepAlive(ts)
	ts.Stop()
	ts.Wait()
}

// Lines without work leave nothing behind but some lines to be used again, and shares that keep no large buffers.
func TestLinesAreForgotten(t *testing.T) {
	t.Parallel()
	ts, may := newReader(batch.Limits{Requests: 1 << 14, Bytes: 1 << 30}, time.Hour)
	const keys, each = 3 * maxFree, maxGrown + 1
	for i := range keys * each {
		ts.Submit(Key{Queue: fmt.Sprint("line-", i%keys)}, new(letter))
	}
	ts.mu.Lock()
	if n := len(ts.lines.all); n != keys {
		t.Errorf("%d lines have work, expected %d", n, keys)
	}
	ts.mu.Unlock()
	close(may)
	for ts.Idle() < 1 {
		runtime.Gosched()
	}
	if e := ts.idle[0]; len(e.turn.all) < keys-1 {
		t.Errorf("a turn had %d lines, expected %d", len(e.turn.all), keys-1)
	} else {
		for _, s := range e.turn.all[maxKept:] {
			if cap(s.taken.requests) > maxGrown {
				t.Errorf("a share keeps room for %d requests, expected %d", cap(s.taken.requests), maxGrown)
			}
		}
	}
	ts.Stop()
	ts.Wait()
	if len(ts.lines.all) > 0 || len(ts.lines.free) > maxFree {
		t.Errorf("%d lines have work, and %d are kept; expected none, and %d at most", len(ts.lines.all), len(ts.lines.free), maxFree)
	}
}

// Lines whose requests were all handed back have no turn, and leave nothing behind.
func TestEmptiedLines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ts, may := newReader(batch.Limits{Requests: 8, Bytes: 1 << 20}, time.Second)
		ts.Submit(Key{Queue: "a"}, new(letter))
		synctest.Wait()
		ts.Submit(Key{Queue: "a"}, &letter{[1 << 10]byte{1}}) // of another source
		ts.Submit(Key{Queue: "b"}, new(letter))
		<-time.After(3 * time.Second)
		if n := ts.Waiting(); n != 1 {
			t.Errorf("%d lines wait for a turn, expected b alone", n)
		}
		close(may)
		synctest.Wait()
		if len(ts.lines.all) > 0 {
			t.Errorf("%d lines have work, expected none", len(ts.lines.all))
		}
		ts.Stop()
		ts.Wait()
	})
}
