package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
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

// NewItem is an item of a [Queue.PushMany].
type NewItem struct {
	Payload []byte
	Options []PushOption
}

// PushMany adds up to [MaxMany] items to the queue in one message, in their order, and returns when all of them are
// durable, with a result for each. With an error no item was added, except after [ErrUnknownResult]. [Error.Item]
// says which item an error is about.
//
// Like [Queue.Push] it is repeated until it is answered, and its items are added once. [MsgID] gives an item an id
// of its own. If one item has the option [WithoutMsgID], the others have no ids either, unless they have their own.
//
// All items and their headers have to fit into one message of the NATS server.
func (q *Queue) PushMany(ctx context.Context, items ...NewItem) ([]Pushed, error) {
	if len(items) == 0 {
		return nil, nil
	}
	to, err := q.subject(subjects.Subject{Verb: subjects.Push})
	if err != nil {
		return nil, err
	}
	r := &call{op: "push", queue: q.name, subject: to, header: nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(items))}}}
	id := bundle(r, items)
	m, err := q.client.do(ctx, r)
	if err != nil {
		return nil, err
	}
	results, err := readResults(m.Data)
	if err != nil || len(results) != len(items) {
		return nil, unreadable("push", q.name, m.Data, err)
	}
	all := make([]Pushed, len(items))
	for i, p := range results {
		own := id == madeID && r.sent > 1 // the duplicate may be our own earlier attempt
		all[i] = Pushed{ID: p.ID, Seq: uint64(p.Seq), Priority: p.Priority, Duplicate: p.Duplicate && !own, Evicted: p.Evicted}
	}
	return all, nil
}

// MaxMany is how many items or settlements one message has at most.
const MaxMany = protocol.MaxBundle

// bundle writes the items into the body of a push, and gives it an id if it needs one.
func bundle(r *call, items []NewItem) msgID {
	var headers []byte
	id := givenID
	for i := range items {
		p := push{header: make(nats.Header), once: true}
		for _, opt := range items[i].Options {
			opt(&p)
		}
		switch {
		case p.header.Get(protocol.HeaderMsgID) != "":
		case !p.once:
			id = noID
		case id == givenID:
			id = madeID
		}
		headers = headers[:0]
		if p.priority != nil {
			headers = fmt.Appendf(headers, "%s: %d\n", protocol.HeaderPriority, *p.priority)
		}
		headers = protocol.AppendHeaders(headers, p.header)
		r.body = protocol.AppendFrame(r.body, headers, items[i].Payload)
	}
	if id == madeID {
		r.header.Set(protocol.HeaderMsgID, nuid.Next())
	}
	r.repeatable = id != noID
	return id
}
