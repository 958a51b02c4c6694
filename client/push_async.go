package client

import (
	"context"
	"errors"

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

// Result waits for the answer and returns it, until the context of the push ends.
func (f *Future) Result() (Pushed, error) {
	<-f.done
	return f.pushed, f.err
}

// pushCall is a push or an import whose caller has a future.
type pushCall struct {
	client    *Client
	op, queue string
	msg       *nats.Msg // the message for the push alone; it has no reply subject
	priority  *int64    // in the subject; nil: none
	id        msgID
	size      int
	single    bool // it has a message of its own

	future Future
	cancel context.CancelFunc

	place  caller
	unhook func() bool // ends the watch of the context
}

// send sends an item, and repeats it if necessary.
func (c *Client) send(ctx context.Context, p *pushCall) (*Future, error) {
	ctx, p.cancel = c.bounded(ctx, 0)
	p.size = p.msg.Size()
	if err := c.inFlight.acquire(ctx, p.size); err != nil {
		p.cancel()
		return nil, err
	}
	p.future.done = make(chan struct{})
	p.place.mu.Lock() // the context may have ended
	p.unhook = context.AfterFunc(ctx, func() { p.leaveOut(ctx.Err()) })
	p.place.mu.Unlock()
	if err := p.depart(ctx); err != nil {
		p.end(Pushed{}, err)
		return nil, err
	}
	return &p.future, nil
}

// depart sends the push, or adds it to a message with others.
func (p *pushCall) depart(ctx context.Context) error {
	c := p.client
	if err := c.refusedForGood(ctx, p.op, p.queue); err != nil {
		return err
	}
	if p.op != "push" || c.pushes.most == 1 {
		return c.ship([]*pushCall{p}, nil)
	}
	return c.pushes.depart(p)
}

// leaveOut ends the push because its caller waits no longer.
func (p *pushCall) leaveOut(err error) {
	if key, by := p.place.where(); by == nil {
		p.client.pushes.TakeOut(key, p)
	}
	p.end(Pushed{}, err)
}

// pushed ends the push with the result of its item.
func (p *pushCall) pushed(result Pushed) {
	result.Duplicate = result.Duplicate && !p.repeatsItself()
	p.end(result, nil)
}

// repeatsItself reports whether a duplicate may be an earlier attempt of the same push: its id is the client's own.
func (p *pushCall) repeatsItself() bool {
	if p.id != madeID || p.msg.Header.Get(protocol.HeaderUnique) == "" {
		return p.id == madeID
	}
	return p.place.attempts().sent > 1
}

// end settles the future; only the first call counts.
func (p *pushCall) end(pushed Pushed, err error) {
	tried, first := p.place.end()
	if !first {
		return
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = ended(p.op, p.queue, tried.sent, tried.refusal, err)
	}
	p.future.pushed, p.future.err = pushed, inDoubt(err, tried.open())
	p.unhook()
	p.cancel()
	p.client.inFlight.release(p.size)
	close(p.future.done)
}
