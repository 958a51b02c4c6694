package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// Future is a push that waits for its answer. Get one from [Queue.PushAsync].
type Future struct {
	done   chan struct{}
	pushed Pushed
	err    error
}

// Done returns a channel that is closed when the answer has arrived.
func (f *Future) Done() <-chan struct{} { return f.done }

// Result waits for the answer and returns it. It waits no longer than the context of the
// push lasts.
func (f *Future) Result() (Pushed, error) {
	<-f.done
	return f.pushed, f.err
}

// asyncPush is a push or an import that was sent and not answered yet.
type asyncPush struct {
	client *Client
	future *Future
	op     string
	queue  string
	msg    *nats.Msg
	id     msgID
	undo   []func() // called when it ends

	mu      sync.Mutex
	ended   bool
	sent    int
	answers int           // that said what became of an attempt
	wait    time.Duration // for the answer, before it is sent again
	timer   *time.Timer   // until it is sent again
	refusal *Error        // the last one
	retry   retry
}

// send sends an item, and repeats that if necessary.
func (c *Client) send(ctx context.Context, op, queue string, m *nats.Msg, id msgID) (*Future, error) {
	ctx, cancel := c.bounded(ctx)
	size := m.Size()
	if err := c.inFlight.acquire(ctx, size); err != nil {
		cancel()
		return nil, err
	}
	p := &asyncPush{
		client: c, future: &Future{done: make(chan struct{})}, op: op, queue: queue, msg: m, id: id,
		wait: c.patience.attempt,
	}
	p.whenEnded(cancel)
	p.whenEnded(func() { c.inFlight.release(size) })
	reply, stop := c.mailbox.receive(addressee{deliver: p.answer, reconnect: p.reconnect})
	p.whenEnded(stop)
	m.Reply = reply
	unwatch := context.AfterFunc(ctx, func() { p.end(Pushed{}, ctx.Err()) })
	p.whenEnded(func() { unwatch() })
	var err error
	if _, up := c.mailbox.connection(); up {
		err = c.admitted(ctx, op, queue)
	}
	if err == nil {
		err = p.publish()
	}
	if err != nil && !p.resend(err) {
		p.end(Pushed{}, err)
		return nil, err
	}
	return p.future, nil
}

// whenEnded calls undo when the push ends.
func (p *asyncPush) whenEnded(undo func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.undo = append(p.undo, undo)
}

// publish sends the message, and repeats that until an answer arrives.
func (p *asyncPush) publish() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil
	}
	if err := p.client.mailbox.mayAsk(); err != nil {
		return p.client.notAdmitted(p.op, p.queue, err)
	}
	if err := p.client.publish(p.op, p.queue, p.msg); err != nil {
		return err
	}
	p.sent++
	if p.id != noID {
		p.resendAfter(p.wait)
		p.wait = longer(p.wait)
	}
	return nil
}

// resendAfter sends the message again after d, unless it is answered by then.
func (p *asyncPush) resendAfter(d time.Duration) {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timer = time.AfterFunc(d, func() {
		if err := p.publish(); err != nil && !p.resend(err) {
			p.end(Pushed{}, err)
		}
	})
}

// reconnect sends the message again: its answer may be lost with the connection, or there was none to send
// it on.
func (p *asyncPush) reconnect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended && p.id != noID && (p.sent > 0 || p.timer != nil) {
		p.resendAfter(0)
	}
}

// answer handles a bridge's answer.
func (p *asyncPush) answer(m *nats.Msg) {
	pushed, e := readPushed(m, p.op, p.queue)
	if e == nil || e.Code != protocol.CodeUnknownResult {
		p.mu.Lock()
		p.answers++
		p.mu.Unlock()
	}
	switch {
	case e == nil:
		pushed.Duplicate = pushed.Duplicate && !p.isOwnRepeat()
		p.end(pushed, nil)
	case !p.resend(e):
		p.end(Pushed{}, e)
	}
}

// isOwnRepeat reports whether the push that this one repeats is, or may be, an earlier
// attempt of this one: its id is the client's own.
func (p *asyncPush) isOwnRepeat() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id == madeID && (p.sent > 1 || p.msg.Header.Get(protocol.HeaderUnique) == "")
}

// resend reports whether the message may be sent again, and schedules that.
func (p *asyncPush) resend(err error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return true
	}
	var e *Error
	again := errors.As(err, &e) && e.again(p.id != noID) && p.retry.allowed(p.client.patience, e)
	if again {
		p.refusal = e
		p.resendAfter(p.retry.delay())
	}
	return again
}

// end settles the future; only the first call counts.
func (p *asyncPush) end(pushed Pushed, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = ended(p.op, p.queue, p.sent, p.refusal, err)
	}
	err = inDoubt(err, p.sent > p.answers)
	p.future.pushed, p.future.err = pushed, err
	for _, undo := range p.undo {
		undo()
	}
	close(p.future.done)
}
