package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// call is a request that is answered by one message.
type call struct {
	op, queue  string // op: a name in [protocol.Ops]
	subject    string
	header     nats.Header // nil: none
	body       []byte
	repeatable bool          // it may be sent twice, whatever [protocol.Ops] says of the operation, because it has an id
	wait       time.Duration // the bridge may wait for so long before it answers; 0: not at all
	sent       int           // how often it was sent
	answered   int           // how many attempts were answered
}

// open reports whether an attempt without an answer may still change something.
func (r *call) open() bool { return r.sent > r.answered && again(r.op) != protocol.Reads }

// again says whether the operation of a name may be done twice.
func again(op string) protocol.Again {
	o, _ := protocol.OpNamed(op)
	return o.Again
}

// do sends a call, repeats it if necessary, and returns its answer.
func (c *Client) do(ctx context.Context, r *call) (*nats.Msg, error) {
	r.repeatable = r.repeatable || again(r.op) != protocol.Once
	ctx, cancel := c.bounded(ctx, r.wait)
	defer cancel()
	answers := make(chan *nats.Msg, 1)
	lost := make(chan struct{}, 1)
	to := addressee{
		deliver: func(m *nats.Msg) {
			select {
			case answers <- m:
			default: // one answer is enough; the answer to the first attempt may come late
			}
		},
		reconnect: func() { notify(lost) },
	}
	patience, listen := c.patience.attempt, c.mailbox.listen
	if r.wait > 0 {
		patience, listen = addTime(r.wait, c.patience.late()), c.mailbox.wait
	}
	heard := false
	var reply string
	var stop func(answered bool)
	open := func() (err error) {
		reply, stop, err = listen(to)
		return err
	}
	if err := open(); err != nil {
		return nil, err
	}
	defer func() {
		if stop != nil {
			stop(heard)
		}
	}()

	var refusal *Error
	var retry retry
	for {
		if err := ctx.Err(); err != nil {
			return nil, inDoubt(ended(r.op, r.queue, r.sent, refusal, err), r.open())
		}
		m, err := c.attempt(ctx, r, reply, answers, lost, patience)
		heard = m != nil || errors.As(err, &refusal)
		switch {
		case m != nil:
			return m, nil
		case heard:
		case err != nil:
			return nil, inDoubt(ended(r.op, r.queue, r.sent, refusal, err), r.open())
		case r.wait > 0: // the attempt may wait still: its subject must end
			stop(false)
			if err := open(); err != nil {
				return nil, err
			}
			continue
		default:
			patience = longer(patience)
			continue
		}
		if !refusal.again(r.repeatable) || ctx.Err() != nil || !retry.allowed(c.patience, refusal) || retry.wait(ctx) != nil {
			return nil, inDoubt(refusal, r.open())
		}
	}
}

// attempt sends a call once. It returns nil and no error if no answer arrives in time, or
// if the answer is lost with the connection.
func (c *Client) attempt(ctx context.Context, r *call, reply string,
	answers <-chan *nats.Msg, lost <-chan struct{}, patience time.Duration) (*nats.Msg, error) {
	if err := c.admitted(ctx, r.op, r.queue); err != nil {
		return nil, err
	}
	if err := c.publish(r.op, r.queue, &nats.Msg{Subject: r.subject, Reply: reply, Header: r.header, Data: r.body}); err != nil {
		return nil, err
	}
	r.sent++
	if !r.repeatable {
		patience, lost = forever, nil
	}
	m, err := await(ctx, answers, lost, patience)
	if m == nil || err != nil {
		return nil, err
	}
	e := answered(m, r.op, r.queue)
	if e == nil || e.Code != protocol.CodeUnknownResult {
		r.answered++
	}
	if e != nil {
		return nil, e
	}
	return m, nil
}

// publish sends a request.
func (c *Client) publish(op, queue string, m *nats.Msg) error {
	err := c.nc.PublishMsg(m)
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return &Error{
			Op: op, Queue: queue, Code: protocol.CodeTooLarge, cause: err,
			Description: fmt.Sprintf("%d bytes: the NATS server takes %d, its max_payload", m.Size(), c.nc.MaxPayload()),
		}
	case errors.Is(err, nats.ErrReconnectBufExceeded):
		return &Error{
			Op: op, Queue: queue, Code: protocol.CodeUnavailable, cause: err,
			Description: "the NATS server is away, and too much waits for it already",
		}
	}
	return err
}

// await waits for an answer. It returns nil if none arrives in time, or if it is lost.
func await(ctx context.Context, answers <-chan *nats.Msg, lost <-chan struct{}, wait time.Duration) (m *nats.Msg, err error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case m = <-answers:
		return m, nil
	case <-lost:
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	select {
	case m = <-answers: // it says what was done, so it counts even if the time is up
		return m, nil
	default:
		return nil, err
	}
}

// ended is the error of a request whose context has ended. It has the last refusal if there is one, because a
// refusal says more than the end of the context.
func ended(op, queue string, sent int, refusal *Error, cause error) error {
	switch {
	case refusal != nil:
		return refusal
	case sent == 0:
		return cause
	}
	return &Error{Op: op, Queue: queue, Code: protocol.CodeUnknownResult, cause: cause, Description: "no answer"}
}

// notify puts a token into a channel that has room for one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
