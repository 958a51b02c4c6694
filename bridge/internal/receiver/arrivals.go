package receiver

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// arrivals are the messages that the server has sent and the bridge has not handled
// yet, in the order in which they arrived. All subscriptions share them. nats.go would
// call back for each subscription from a goroutine of its own, and the server sends a
// settlement to any subscription that matches: a settlement could overtake an earlier
// one.
//
// nats.go drops a message when the channel is full. So one goroutine only moves
// messages from the channel to a line, and another one handles them.
type arrivals struct {
	handle func(*nats.Msg)
	log    *slog.Logger
	came   chan *nats.Msg
	end    *nats.Msg // the last one

	count, bytes atomic.Int64 // of the messages not handled yet

	mu       sync.Mutex
	some     sync.Cond
	line     []*nats.Msg
	marks    map[*nats.Msg]func() // called when the mark is the next in line
	dropping bool
}

// pendingBytes bounds the messages that have arrived and were not handled yet. A
// message beyond the bound is dropped. The receiver sheds load long before: handling
// a message never blocks, and refuses it under overload.
const pendingBytes = 256 << 20

const (
	// arrivalsRoom is the length of the channel: some tens of milliseconds at the
	// highest rate at which nats.go receives messages.
	arrivalsRoom = 1 << 16

	// arrivalsStep is how many messages move to the line at a time, arrivalsKept the
	// longest line whose memory is used again.
	arrivalsStep = 256
	arrivalsKept = 4096
)

// start handles messages until stop, one after the other. The handler must not block.
func (a *arrivals) start(handle func(*nats.Msg), log *slog.Logger) {
	a.handle, a.log = handle, log
	a.came = make(chan *nats.Msg, arrivalsRoom)
	a.end = new(nats.Msg)
	a.marks = make(map[*nats.Msg]func())
	a.some.L = &a.mu
	go a.collect()
	go a.run()
}

// stop ends after the messages that have arrived. Later ones are dropped.
func (a *arrivals) stop() { a.came <- a.end }

// pending is the number and size of the messages not handled yet.
func (a *arrivals) pending() (messages, bytes int) {
	return int(a.count.Load()), int(a.bytes.Load())
}

// wait returns when all messages that have arrived so far are handled.
func (a *arrivals) wait(ctx context.Context) error {
	mark, done := new(nats.Msg), make(chan struct{})
	a.mu.Lock()
	a.marks[mark] = func() { close(done) }
	a.mu.Unlock()
	select {
	case a.came <- mark:
	case <-ctx.Done():
		a.mu.Lock()
		delete(a.marks, mark) // nothing passes it
		a.mu.Unlock()
		return ctx.Err()
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// collect moves messages from the channel to the line.
func (a *arrivals) collect() {
	for m := range a.came {
		a.mu.Lock()
		for n := 1; ; n++ {
			a.add(m)
			if m == a.end || n == arrivalsStep || len(a.came) == 0 {
				break
			}
			m = <-a.came // the channel has no other reader
		}
		a.some.Signal()
		a.mu.Unlock()
		if m == a.end {
			return
		}
	}
}

func (a *arrivals) add(m *nats.Msg) {
	if m.Sub != nil { // a mark has none
		size := int64(m.Size())
		if a.bytes.Load()+size > pendingBytes {
			if !a.dropping {
				a.dropping = true
				a.log.Error("dropped requests: more arrive than this bridge reads", "subject", m.Sub.Subject, "error", nats.ErrSlowConsumer)
			}
			return
		}
		a.dropping = false
		a.count.Add(1)
		a.bytes.Add(size)
	}
	a.line = append(a.line, m)
}

// run handles the messages in line.
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
				a.handle(m)
				a.count.Add(-1)
				a.bytes.Add(-size)
			}
		}
	}
}

// next returns the line, and uses the memory of the one before for the next.
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

// passed calls the function of a mark.
func (a *arrivals) passed(mark *nats.Msg) {
	a.mu.Lock()
	do := a.marks[mark]
	delete(a.marks, mark)
	a.mu.Unlock()
	do()
}
