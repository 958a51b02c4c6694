package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Future is a push whose answer is on its way. Get one from [Queue.PushAsync].
type Future struct {
	done   chan struct{}
	pushed Pushed
	err    error
}

// Done is closed when the answer is there.
func (f *Future) Done() <-chan struct{} { return f.done }

// Result waits for the answer and returns it. It waits no longer than the
// context of the push lets it.
func (f *Future) Result() (Pushed, error) {
	<-f.done
	return f.pushed, f.err
}

// maxFlyingBytes bounds what is in flight together with the number of pushes:
// bridges take 64 MiB of all their clients together.
const maxFlyingBytes = 16 << 20

// flights bounds the pushes in flight.
type flights struct {
	most int

	mu    sync.Mutex
	n     int
	bytes int
	fewer chan struct{} // closed when there are fewer; nil while nobody waits for that
}

func newFlights(most int) *flights { return &flights{most: most} }

// take waits until there is room for a push.
func (f *flights) take(ctx context.Context, size int) error {
	return f.until(ctx, func() bool {
		fits := f.n < f.most && (f.bytes == 0 || f.bytes+size <= maxFlyingBytes)
		if fits {
			f.n++
			f.bytes += size
		}
		return fits
	})
}

// wait waits until no push is in flight.
func (f *flights) wait(ctx context.Context) error {
	return f.until(ctx, func() bool { return f.n == 0 })
}

// until waits for a condition, which is looked at under the lock.
func (f *flights) until(ctx context.Context, is func() bool) error {
	for {
		f.mu.Lock()
		if is() {
			f.mu.Unlock()
			return nil
		}
		if f.fewer == nil {
			f.fewer = make(chan struct{})
		}
		fewer := f.fewer
		f.mu.Unlock()
		select {
		case <-fewer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *flights) leave(size int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	f.bytes -= size
	if f.fewer != nil {
		close(f.fewer)
		f.fewer = nil
	}
}

// flight is a push, or an import, that was sent and not answered yet.
type flight struct {
	client *Client
	future *Future
	op     string
	queue  string
	msg    *nats.Msg
	id     msgID
	forget []func() // what to undo when it ends

	mu      sync.Mutex
	ended   bool
	sent    int
	wait    time.Duration // for the answer, before it is sent again
	timer   *time.Timer   // until it is sent again
	refusal *Error        // the last one
	insist  insistence
}

// send sends an item, again if need be.
func (c *Client) send(ctx context.Context, op, queue string, m *nats.Msg, id msgID) (*Future, error) {
	ctx, cancel := c.bounded(ctx)
	size := m.Size()
	if err := c.flights.take(ctx, size); err != nil {
		cancel()
		return nil, err
	}
	f := &flight{
		client: c, future: &Future{done: make(chan struct{})}, op: op, queue: queue, msg: m, id: id,
		wait: c.patience.attempt,
	}
	f.whenEnded(cancel)
	f.whenEnded(func() { c.flights.leave(size) })
	reply, stop, err := c.mailbox.receive(f.answer)
	if err == nil {
		f.whenEnded(stop)
		m.Reply = reply
		unwatch := context.AfterFunc(ctx, func() { f.end(Pushed{}, ctx.Err()) })
		f.whenEnded(func() { unwatch() })
		if err = f.publish(); err != nil && f.refused(err) {
			err = nil
		}
	}
	if err != nil {
		f.end(Pushed{}, err)
		return nil, err
	}
	return f.future, nil
}

// whenEnded has something undone when the flight ends, at once if it has ended:
// a context may be over before everything is set up.
func (f *flight) whenEnded(undo func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		undo()
		return
	}
	f.forget = append(f.forget, undo)
}

// publish sends the message, and again after a while without an answer.
func (f *flight) publish() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return nil
	}
	if err := f.client.publish(f.op, f.queue, f.msg); err != nil {
		return err
	}
	f.sent++
	if f.id != noID {
		f.again(f.wait)
		f.wait = longer(f.wait)
	}
	return nil
}

// again sends the message again after d, unless the answer is there by then.
func (f *flight) again(d time.Duration) {
	if f.timer != nil {
		f.timer.Stop()
	}
	f.timer = time.AfterFunc(d, func() {
		if err := f.publish(); err != nil && !f.refused(err) {
			f.end(Pushed{}, err)
		}
	})
}

// answer handles what a bridge says.
func (f *flight) answer(m *nats.Msg) {
	pushed, e := readPushed(m, f.op, f.queue)
	switch {
	case e == nil:
		// Of an id that nobody else has, the first push was this one, too.
		pushed.Duplicate = pushed.Duplicate && f.id != madeID
		f.end(pushed, nil)
	case !f.refused(e):
		f.end(Pushed{}, e)
	}
}

// refused has the message sent again if it may be, and says whether it is.
func (f *flight) refused(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return true
	}
	var e *Error
	again := errors.As(err, &e) && e.again(f.id != noID) && f.insist.more(f.client.patience)
	if again {
		f.refusal = e
		f.again(f.insist.next())
	}
	return again
}

// end settles the future; only the first call counts.
func (f *flight) end(pushed Pushed, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	f.ended = true
	if f.timer != nil {
		f.timer.Stop()
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = ended(f.op, f.queue, f.sent, f.refusal, err)
	}
	f.future.pushed, f.future.err = pushed, err
	for _, undo := range f.forget {
		undo()
	}
	close(f.future.done)
}
