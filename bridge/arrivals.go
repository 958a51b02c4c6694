package bridge

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// arrivals are the messages that the server has sent and the bridge has not looked
// at yet, in the order in which they came. Subscriptions share them: nats.go calls
// back for each subscription from a goroutine of its own, and the server sends a
// settlement to any one that matches, so one could overtake the one before it.
//
// nats.go drops what it cannot put into a channel at once. So one goroutine does
// nothing but take messages from there, and another one looks at them.
type arrivals struct {
	look func(*nats.Msg)
	log  *slog.Logger
	came chan *nats.Msg
	end  *nats.Msg // comes last

	count, bytes atomic.Int64 // of what was not looked at

	mu       sync.Mutex
	some     sync.Cond
	line     []*nats.Msg
	marks    map[*nats.Msg]func() // what to do when it is the mark's turn
	dropping bool
}

const (
	// arrivalsRoom is how many messages nats.go may be ahead of the goroutine that
	// takes them: some tens of milliseconds of the most that it can receive.
	arrivalsRoom = 1 << 16

	// arrivalsStep is how many messages are taken at a time, and arrivalsKept for how
	// many memory is kept.
	arrivalsStep = 256
	arrivalsKept = 4096
)

// start has each message looked at, one after the other. Looking must not block.
func (a *arrivals) start(look func(*nats.Msg), log *slog.Logger) {
	a.look, a.log = look, log
	a.came = make(chan *nats.Msg, arrivalsRoom)
	a.end = new(nats.Msg)
	a.marks = make(map[*nats.Msg]func())
	a.some.L = &a.mu
	go a.collect()
	go a.run()
}

// stop ends it, after all that has come. What comes later is dropped.
func (a *arrivals) stop() { a.came <- a.end }

// pending is how much has come that was not looked at.
func (a *arrivals) pending() (messages, bytes int) {
	return int(a.count.Load()), int(a.bytes.Load())
}

// wait returns when all that has come so far was looked at.
func (a *arrivals) wait(ctx context.Context) error {
	mark, done := new(nats.Msg), make(chan struct{})
	a.mu.Lock()
	a.marks[mark] = func() { close(done) }
	a.mu.Unlock()
	select {
	case a.came <- mark:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// collect takes messages as they come.
func (a *arrivals) collect() {
	for m := range a.came {
		a.mu.Lock()
		for n := 1; ; n++ {
			a.add(m)
			if m == a.end || n == arrivalsStep || len(a.came) == 0 {
				break
			}
			m = <-a.came // which nobody else takes
		}
		a.some.Signal()
		a.mu.Unlock()
		if m == a.end {
			return
		}
	}
}

func (a *arrivals) add(m *nats.Msg) {
	if m.Sub != nil { // else a mark
		size := int64(m.Size())
		if a.bytes.Load()+size > pendingBytes {
			if !a.dropping {
				a.dropping = true
				a.log.Error("NATS", "subject", m.Sub.Subject, "error", nats.ErrSlowConsumer)
			}
			return
		}
		a.dropping = false
		a.count.Add(1)
		a.bytes.Add(size)
	}
	a.line = append(a.line, m)
}

// run looks at messages.
func (a *arrivals) run() {
	var batch []*nats.Msg
	for {
		batch = a.next(batch)
		for i, m := range batch {
			batch[i] = nil
			switch {
			case m == a.end:
				return
			case m.Sub == nil:
				a.passed(m)
			default:
				size := int64(m.Size())
				a.look(m)
				a.count.Add(-1)
				a.bytes.Add(-size)
			}
		}
	}
}

// next returns what has come, and keeps the memory of what came before.
func (a *arrivals) next(used []*nats.Msg) []*nats.Msg {
	if cap(used) > arrivalsKept {
		used = nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.line) == 0 {
		a.some.Wait()
	}
	batch := a.line
	a.line = used[:0]
	return batch
}

// passed does what is to be done at a mark.
func (a *arrivals) passed(mark *nats.Msg) {
	a.mu.Lock()
	do := a.marks[mark]
	delete(a.marks, mark)
	a.mu.Unlock()
	do()
}
