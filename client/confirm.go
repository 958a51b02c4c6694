package client

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// A pop for good loses its item if its client leaves between the bridge's question whether the client is there and
// the answer. So a pop for good that waits goes in two steps: first it takes an item that is there, as any pop
// does; then it waits for a lease, which it acknowledges before the caller gets the item.

// confirmWithin is the length of such a lease: if the client dies in that moment, the item is away for so long.
const confirmWithin = 30 * time.Second

// runInSteps does the work of run for a pop for good that waits.
func (t *popCall) runInSteps(ctx context.Context) ([]*Item, error) {
	look := *t
	look.wait.most, look.request.Expires = 0, 0
	look.answerWait = addTime(min(t.wait.left(ctx), protocol.MaxWait), t.queue.client.patience.late())
	items, err := look.run(ctx)
	if !hasCode(err, protocol.CodeNotFound) {
		return items, err
	}
	for {
		confirms, err := t.queue.maySettle(ctx)
		if err != nil {
			return nil, ended(t.op, t.queue.name, 0, nil, err)
		}
		waits := *t
		if confirms {
			waits.request.Confirm = t.queue.client.patience.confirm
		}
		if t.request.ownID {
			waits.request.MsgID = nuid.Next()
		}
		items, err := waits.run(ctx)
		switch {
		case !confirms:
			return items, err
		case err != nil:
			return nil, nothingTaken(ctx, err)
		}
		if items, err = t.confirm(ctx, items); len(items) > 0 || err != nil {
			return items, err
		}
	}
}

// nothingTaken is the error of a wait that has certainly taken nothing: a lease whose answer was lost is never
// acknowledged.
func nothingTaken(ctx context.Context, err error) error {
	var e *Error
	if ctx.Err() == nil || !errors.As(err, &e) || e.Code != protocol.CodeUnknownResult {
		return err
	}
	return &Error{Op: e.Op, Queue: e.Queue, Code: protocol.CodeTimeout, cause: ctx.Err(), Description: "nothing arrived before the end of the context"}
}

// confirm acknowledges items, which pops them for good, and returns the items that the caller has. It returns none and
// no error if all of them were lost to others. Items that the queue itself leases stay leased.
func (t *popCall) confirm(ctx context.Context, items []*Item) (popped []*Item, err error) {
	if !items[0].confirms {
		return items, nil
	}
	if ctx.Err() != nil {
		for _, item := range items {
			item.queue.client.mailbox.back(item.ack.own)
		}
		return nil, nothingTaken(ctx, ended(t.op, t.queue.name, 1, nil, ctx.Err()))
	}
	// Once the acknowledgement is sent, only its answer tells who has the items.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.queue.client.patience.timeout)
	defer cancel()
	errs := t.queue.AckMany(ctx, items...)
	for i, item := range items {
		switch {
		case errs == nil || errs[i] == nil:
			popped = append(popped, item.popped())
		case !errors.Is(errs[i], ErrLeaseLost):
			item.queue.client.mailbox.back(item.ack.own)
			err = errs[i]
		}
	}
	var e *Error
	if len(popped) > 0 {
		err = nil
	} else if errors.As(err, &e) {
		e.Op = t.op
	}
	return popped, err
}

// popped turns an acknowledged item into an item that was popped without a lease.
func (i *Item) popped() *Item {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ack, i.term, i.settled, i.confirms = ackSubject{}, 0, false, false
	i.Fence, i.KeyFence, i.Backoff = 0, 0, 0
	i.Deliveries--
	return i
}

// askingToSettle is the token of subjects that settle no lease. Publishing there shows whether the user may settle.
const askingToSettle = "may-settle"

// maySettle reports whether the user of the connection may settle leases of the queue. It asks once for each
// connection: the server refuses a publication without the right; otherwise a bridge answers that it knows no such
// lease.
func (q *Queue) maySettle(ctx context.Context) (bool, error) {
	c := q.client
	if may, known := c.settles.Of(q.name); known {
		return may, nil
	}
	if err := c.admitted(ctx, "pop", q.name); err != nil {
		return false, err
	}
	answers := make(chan *nats.Msg, refusals)
	reply, stop := c.mailbox.receive(addressee{deliver: func(m *nats.Msg) { answers <- m }})
	defer stop()
	refusal, err := c.mailbox.refused(ctx, nil, func() (string, error) {
		subject, err := q.subject(subjects.Subject{Verb: subjects.Ack, Conn: askingToSettle, Token: nuid.Next()})
		if err != nil {
			return "", err
		}
		return subject, c.publish("pop", q.name, &nats.Msg{Subject: subject, Reply: reply, Data: []byte(protocol.SettleProgress)})
	})
	if err != nil {
		return false, err
	}
	if refusal != nil {
		c.settles.Set(q.name, false)
		return false, nil
	}
	m, err := await(ctx, answers, nil, c.patience.late())
	if m == nil {
		return true, err
	}
	if e := answered(m, "pop", q.name); e != nil && errors.Is(e, nats.ErrNoResponders) {
		return false, nil // no bridge is there, or settlements do not leave the account
	}
	c.settles.Set(q.name, true)
	return true, nil
}

// AskedWhetherItMay reports whether a permission error, as the error handler of a connection gets it, is
// the answer to a question of a client whether its user may settle leases. Nothing has failed then: a pop for
// good that waits may lose its item if it is cancelled, see [Wait].
func AskedWhetherItMay(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), ".ack."+askingToSettle+".")
}
