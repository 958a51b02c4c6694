package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// End is an end of a queue.
type End int

const (
	Min End = iota // the lowest priority number first
	Max            // the highest first
)

func (e End) String() string {
	if e == Max {
		return "max"
	}
	return "min"
}

// PopOption is an option of a pop or a peek.
type PopOption func(*popRequest)

// popRequest is the request that the options fill in.
type popRequest struct {
	protocol.PopRequest
	ownID bool   // it has an id, which is the client's own
	inbox *inbox // of its reply subject while it waits; nil: it has one of its own
}

// Wait makes a pop of an empty queue wait for an item, up to d and no longer than the context. Without it, the pop
// fails with [ErrEmpty] at once.
//
// A pop that ends while it waits has taken nothing. A pop without a lease leases the item for which it has waited,
// and acknowledges it before it returns it. A user who may pop and not settle pops the item in one step, as with
// [PopID]; then an item that arrives just as the context ends may be lost.
func Wait(d time.Duration) PopOption { return func(r *popRequest) { r.Expires = d } }

// Lease leases the popped items for d: they return unless they are settled in time.
// Without it the queue's configuration decides; by default popped items are gone. It has
// no effect on peeks.
func Lease(d time.Duration) PopOption { return func(r *popRequest) { r.Lease = d } }

// Band selects priorities from low to high, both included. An end of the band that is
// math.MinInt64 or math.MaxInt64 is open.
func Band(low, high int64) PopOption {
	return func(r *popRequest) { r.Min, r.Max = &low, &high }
}

// MaxBytes bounds the payloads of a batch; one item always fits.
func MaxBytes(n int) PopOption { return func(r *popRequest) { r.MaxBytes = n } }

// PopID gives the pop an id: within the queue's dedup_window, repeated pops with this id return the same items, in
// any program. Peeks have none. After a repeated pop that found nothing, further pops with the id find nothing
// either: an earlier attempt may still be under way, and must not pop an item that reaches nobody.
func PopID(id string) PopOption { return func(r *popRequest) { r.MsgID, r.ownID = id, false } }

// Repeatable gives the pop a random id, so that the client can repeat it when its answer
// is lost. A pop without a lease then happens exactly once, unless the program ends.
func Repeatable() PopOption { return func(r *popRequest) { r.MsgID, r.ownID = nuid.Next(), true } }

// Pop removes or leases the first item at an end of the queue. It fails with [ErrEmpty]
// if there is none.
//
// A pop without a lease delivers at most once: after [ErrUnknownResult] the item may be
// lost with the answer. See [Lease] and [Repeatable].
func (q *Queue) Pop(ctx context.Context, end End, opts ...PopOption) (*Item, error) {
	return single(q.take(ctx, "pop", end, 0, opts))
}

// PopBatch is Pop for up to n items, in order. It returns at least one item, or an error. The items come in one
// message of the NATS server, which bounds their number.
func (q *Queue) PopBatch(ctx context.Context, end End, n int, opts ...PopOption) ([]*Item, error) {
	return q.takeBatch(ctx, "pop", end, n, opts)
}

// Peek returns the first item at an end of the queue and leaves it there.
func (q *Queue) Peek(ctx context.Context, end End, opts ...PopOption) (*Item, error) {
	return single(q.take(ctx, "peek", end, 0, opts))
}

// PeekBatch returns up to n items at an end of the queue and leaves them there.
func (q *Queue) PeekBatch(ctx context.Context, end End, n int, opts ...PopOption) ([]*Item, error) {
	return q.takeBatch(ctx, "peek", end, n, opts)
}

func single(items []*Item, err error) (*Item, error) {
	if err != nil {
		return nil, err
	}
	return items[0], nil
}

var verbs = map[string][2]subjects.Verb{
	"pop":  {Min: subjects.PopMin, Max: subjects.PopMax},
	"peek": {Min: subjects.PeekMin, Max: subjects.PeekMax},
}

func (q *Queue) takeBatch(ctx context.Context, op string, end End, n int, opts []PopOption) ([]*Item, error) {
	if n < 1 {
		return nil, fmt.Errorf("a batch of %d: expected 1 or more", n)
	}
	return q.take(ctx, op, end, n, opts)
}

// take pops or peeks, and retries if necessary. With a batch of 0 it asks for a single item.
func (q *Queue) take(ctx context.Context, op string, end End, batch int, opts []PopOption) ([]*Item, error) {
	request := popRequest{PopRequest: protocol.PopRequest{Batch: batch}}
	for _, opt := range opts {
		opt(&request)
	}
	subject, err := q.pop(end, op)
	if err != nil {
		return nil, err
	}
	t := popCall{
		queue: q, op: op, subject: subject, request: request, wait: q.client.patience.begin(request.Expires),
		repeatable: op == "peek" || request.MsgID != "",
	}
	ctx, cancel := q.client.bounded(ctx, t.wait.most)
	defer cancel()
	if op == "pop" && t.wait.most > 0 && request.Lease == 0 && (request.MsgID == "" || request.ownID) {
		return t.runInSteps(ctx)
	}
	return t.run(ctx)
}

// pop returns the subject to pop from, or to peek at.
func (q *Queue) pop(end End, op string) (string, error) {
	if end != Min && end != Max {
		return "", errors.New("end: expected client.Min or client.Max")
	}
	return q.subject(subjects.Subject{Verb: verbs[op][end]})
}

// popCall is a pop or a peek under way.
type popCall struct {
	queue      *Queue
	op         string
	subject    string
	request    popRequest
	repeatable bool
	connLost   bool          // the last attempt ended with the connection
	wait       wait          // asked for by the caller
	answerWait time.Duration // how long to wait for the answer if the pop does not wait for an item; 0: until the context ends
	single     bool          // each item in a message of its own
	bundled    bool          // the last attempt asked for a bundle
	sent       int
	open       bool // an attempt without an answer may still be under way
	answers    *answers
}

// run repeats the request until it gets items, or the time is up.
func (t *popCall) run(ctx context.Context) ([]*Item, error) {
	var refusal *Error
	var retry, waits retry
	t.answers = newAnswers(t.queue.client.mailbox)
	t.answers.inbox = t.request.inbox
	defer t.answers.close()
	patience := t.queue.client.patience.attempt
	if t.wait.most > 0 {
		patience = t.queue.client.patience.late()
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, t.doubt(ended(t.op, t.queue.name, t.sent, refusal, err))
		}
		left := t.wait.left(ctx)
		t.request.Expires = min(left, protocol.MaxWait)
		// An answer that ends this pop without an item has to end its earlier attempts, too. As long as the pop
		// goes on, another attempt may pop the item.
		t.request.Repeat = t.open && t.op == "pop" && left <= protocol.MaxWait
		wait := addTime(t.request.Expires, patience)
		if !t.repeatable && t.wait.most == 0 {
			wait = cmp.Or(t.answerWait, forever)
		}
		before, asked := t.sent, time.Now()
		items, err := t.attempt(ctx, wait)
		var e *Error
		errors.As(err, &e)
		switch {
		case len(items) > 0:
			return items, nil
		case err == nil && t.connLost && !t.repeatable:
			continue // no client has the leased item, so it returns
		case err == nil && !t.repeatable:
			return nil, ended(t.op, t.queue.name, t.sent, nil, context.DeadlineExceeded)
		case err == nil:
			t.open = true
			patience = longer(patience)
			continue
		case e == nil:
			t.open = t.open || t.sent > before
			return nil, t.doubt(ended(t.op, t.queue.name, t.sent, refusal, err))
		case t.bundled && e.Code == protocol.CodeTooLarge:
			t.single = true // the item does not fit into a bundle; nothing was done
			continue
		case e.Code == protocol.CodeTimeout && t.goesOn(ctx):
			waits.early(ctx, asked)
			continue
		}
		refusal = e
		t.open = t.open || e.Code == protocol.CodeUnknownResult && e.cause == nil
		if !e.again(t.repeatable) || ctx.Err() != nil || !retry.allowed(t.queue.client.patience, e) || retry.wait(ctx) != nil {
			return nil, t.doubt(e)
		}
	}
}

// doubt is the error of a pop that ends while an attempt without an answer may still be
// under way.
func (t *popCall) doubt(err error) error {
	if t.op == "peek" {
		return err
	}
	return inDoubt(err, t.open)
}

// goesOn reports whether the pop asks again after the answer that nothing has arrived.
func (t *popCall) goesOn(ctx context.Context) bool {
	if !t.wait.goesOn(ctx) {
		return false
	}
	if t.request.Repeat && t.request.ownID { // no attempt with its id takes anything any more
		t.request.MsgID, t.open = nuid.Next(), false
	}
	return !t.request.Repeat || t.request.ownID
}

// attempt asks once and collects the answers. It returns no items and no error in three cases: no answer arrives;
// answers may be lost with the connection and the pop can be repeated; or the pop waits for a lease, and the bridge
// may have noticed that nobody listened. Items also come as answers to earlier attempts; all else in such answers
// is out of date. So a full batch does not wait for an end mark, which may belong to an earlier attempt.
func (t *popCall) attempt(ctx context.Context, wait time.Duration) ([]*Item, error) {
	request := t.request
	if t.bundled = request.Batch > 0 && !t.single; t.bundled {
		request.Batch, request.Bundle = 0, request.Batch
	}
	body, err := request.body()
	if err != nil {
		return nil, err
	}
	c := t.queue.client
	if err := c.admitted(ctx, t.op, t.queue.name); err != nil {
		return nil, err
	}
	select {
	case <-t.answers.lost: // this attempt is sent on the new connection
	default:
	}
	lost := t.answers.lost
	if !t.repeatable && (t.wait.most == 0 || t.request.Lease+t.request.Confirm == 0) {
		lost = nil
	}
	t.connLost = false
	reply, err := t.answers.attempt(t.request.Expires > 0)
	if err != nil {
		return nil, err
	}
	if err := c.publish(t.op, t.queue.name, &nats.Msg{Subject: t.subject, Reply: reply, Data: body}); err != nil {
		return nil, err
	}
	t.sent++

	var items []*Item
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for over := false; !over; {
		select {
		case <-t.answers.more:
		case <-timer.C:
			over = true
		case <-lost:
			t.connLost = len(items) == 0 // the rest of a batch may be on its way
			over = t.connLost
		case <-ctx.Done():
			over, err = true, ctx.Err()
		}
		// Answers that have arrived count even if the time is up.
		for m, late := t.answers.next(); m != nil; m, late = t.answers.next() {
			if late && m.Header.Get(protocol.HeaderID) == "" {
				continue
			}
			if e := answered(m, t.op, t.queue.name); e != nil {
				t.answers.endWait(true)
				return items, e
			}
			if m.Header.Get(protocol.HeaderID) == "" {
				t.answers.endWait(true)
				if m.Header.Get(protocol.HeaderStatus) == protocol.StatusEndOfBatch {
					return items, nil
				}
				return items, unreadable(t.op, t.queue.name, m.Data, nil)
			}
			item, err := readItem(t.queue, m)
			if err != nil {
				return items, unreadable(t.op, t.queue.name, m.Data, err)
			}
			item.term = t.request.Lease
			if !t.answers.got(m) {
				continue
			}
			if items = append(items, item); len(items) == max(1, t.request.Batch) {
				t.answers.endWait(!late)
				return items, nil
			}
		}
	}
	return items, err
}

// body is the request as it is sent; a request without options is empty.
func (r popRequest) body() ([]byte, error) {
	if r.PopRequest == (protocol.PopRequest{}) {
		return nil, nil
	}
	return json.Marshal(r.PopRequest)
}
