package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Result is what became of an item whose push asked for that, see [ResultTTL].
type Result struct {
	Outcome    protocol.Finish // how the item ended
	Body       []byte          // what its holder said with the acknowledgement
	Dropped    bool            // the holder said something, and the queue had no room for it
	FinishedAt time.Time
	Deliveries int64
	Reason     string // why it is dead, or cancelled
	Cause      string // what a dead item failed of last: the reason of its last attempt, or that of its death
	DeadLetter string // of a dead item: the queue that has it now
	Next       string // of an item handed over: the queue that has it now, or link:<name>
	NextID     string // its id in either
}

// Result returns what became of an item. The error is [ErrNotFound] for an unknown id: there never was such an item, or it ended without a
// result, or longer ago than that is kept, or by a purge. Of an item that has not ended the error is [ErrNoResultYet] with code 404, or,
// if its push did not ask for a result, an [Error] with code 409 and [ReasonUnkept].
func (q *Queue) Result(ctx context.Context, id string) (*Result, error) { return q.result(ctx, id, 0) }

// AwaitResult is Result, and waits until the item has ended, up to d and no longer than the context. An item whose push did not ask for a
// result fails at once. Without time to wait it is Result. When the time is up, the error is [ErrNoResultYet], and the context's error if
// that has ended: the item goes on, and the program may ask again.
func (q *Queue) AwaitResult(ctx context.Context, id string, d time.Duration) (*Result, error) {
	var waits retry
	for w := q.client.patience.begin(max(d, 0)); ; {
		asked := time.Now()
		r, err := q.result(ctx, id, min(w.left(ctx), resultWait))
		if !hasCode(err, protocol.CodeTimeout) || !w.goesOn(ctx) {
			return r, q.late(ctx, w, id, err)
		}
		waits.early(ctx, asked)
	}
}

// late is the error of a wait. Its text and its fields say how to get the result all the same.
func (q *Queue) late(ctx context.Context, w wait, id string, err error) error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &e):
		if ctx.Err() == nil && !isFatal(err) { // the id is wrong
			return err
		}
		e = &Error{Op: "result", Queue: q.name, Code: protocol.CodeUnknownResult, ID: id, Description: goesOn(id, "no answer"), cause: err}
	case e.Code == protocol.CodeTimeout && w.boundBy(ctx):
		e.cause = cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	return e
}

// goesOn says of an item that its result may come yet.
func goesOn(id, why string) string {
	return fmt.Sprintf("%s: item %s goes on: ask again with Result", why, id)
}

// PushAndWait pushes an item, as Push does, and waits for its result, as AwaitResult does, for as long as ctx lasts. The queue keeps the
// result for ten minutes, unless [ResultTTL] says otherwise, so a program that is late, or whose connection breaks, still gets it. The
// outcome may be any, such as [protocol.FinishDead]. If the wait ends early, the error is [ErrNoResultYet], and [Error.ID] the item.
//
// See [Call] for values instead of payloads.
func (q *Queue) PushAndWait(ctx context.Context, payload []byte, opts ...PushOption) (*Result, error) {
	_, r, err := q.pushAndWait(ctx, payload, opts)
	return r, err
}

func (q *Queue) pushAndWait(ctx context.Context, payload []byte, opts []PushOption) (id string, r *Result, err error) {
	push, patient := q.Push, hangsUp(opts)
	if patient {
		push = q.pushPatiently
	}
	pushed, err := push(ctx, payload, append([]PushOption{ResultTTL(awaitedFor)}, opts...)...)
	if err != nil {
		return "", nil, err
	}
	// The wait for the result ends somewhat before the deadline of ctx.
	if r, err = q.AwaitResult(ctx, pushed.ID, forever); patient && err != nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)) {
		r, err = q.hangUp(ctx, pushed.ID, err)
	}
	return pushed.ID, r, err
}

// CancelOnHangUp has [Queue.PushAndWait] and [Call] cancel the item when their context ends before it has a result, since nobody else wants
// one. The error is [ErrCancelled] then, unless the item has just ended: its result counts. A program that dies cancels nothing, see
// [TTL]. It has no effect on other pushes.
func CancelOnHangUp() PushOption { return func(p *push) { p.hangsUp = true } }

func hangsUp(opts []PushOption) bool {
	p := push{header: nats.Header{}}
	for _, set := range opts {
		set(&p)
	}
	return p.hangsUp
}

// pushPatiently waits for the answer of a push also when ctx has ended, as long as for that of any request: without it nobody knows which
// item to cancel.
func (q *Queue) pushPatiently(ctx context.Context, payload []byte, opts ...PushOption) (Pushed, error) {
	if ctx.Err() != nil {
		return q.Push(ctx, payload, opts...)
	}
	lasting, cancel := outlasting(ctx, q.client.patience.timeout)
	defer cancel()
	if deadline, has := ctx.Deadline(); has {
		lasting, cancel = context.WithDeadline(lasting, deadline.Add(q.client.patience.timeout))
		defer cancel()
	}
	pushed, err := q.Push(lasting, payload, opts...)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return pushed, err
}

// hangUp cancels an item whose caller does not wait for it any longer. late is the error of the wait.
func (q *Queue) hangUp(ctx context.Context, id string, late error) (*Result, error) {
	why, text := cmp.Or(ctx.Err(), context.DeadlineExceeded), "its time is up"
	if errors.Is(why, context.Canceled) {
		text = "its context was cancelled"
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.client.patience.timeout)
	defer cancel()
	done, err := q.Cancel(ctx, id, CancelOptions{Reason: "the caller has hung up: " + text})
	switch {
	case err != nil:
		return nil, errors.Join(late, err)
	case done.FinishedAt.IsZero(), done.Outcome == protocol.FinishCancelled:
		return nil, fmt.Errorf("item %s is %w, because the wait for it has ended: %w", id, ErrCancelled, why)
	}
	return q.Result(ctx, id)
}

const (
	awaitedFor = 10 * time.Minute

	// resultWait is how long one request waits for the end of an item. It also bounds the time until the client notices that a bridge
	// has died.
	resultWait = 10 * time.Second
)

// unanswered is the error of a question for the result of an item.
func unanswered(id string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	e.ID = id
	if e.goesOn() {
		e.Description = goesOn(id, e.Description)
	}
	return e
}

// result asks for a result, and lets the bridge wait for it.
func (q *Queue) result(ctx context.Context, id string, wait time.Duration) (*Result, error) {
	subject, err := q.subject(subjects.Subject{Verb: subjects.Result, ID: id})
	if err != nil {
		return nil, err
	}
	ask := call{op: "result", queue: q.name, subject: subject, wait: wait}
	if wait > 0 {
		ask.header = nats.Header{protocol.HeaderWait: {wait.String()}}
	}
	m, err := q.client.do(ctx, &ask)
	if err != nil {
		return nil, unanswered(id, err)
	}
	var r protocol.ItemResult
	if err := r.ReadHeaders(m.Header.Get); err != nil {
		return nil, unreadable("result", q.name, m.Data, err)
	}
	return &Result{
		Outcome: r.Outcome, Body: m.Data, Dropped: r.Dropped, FinishedAt: r.FinishedAt, Deliveries: r.Deliveries,
		Reason: cmp.Or(r.DeadReason, r.CancelReason), Cause: cmp.Or(r.DeadCause, r.DeadReason), DeadLetter: r.DeadLetter, Next: r.Next, NextID: r.NextID,
	}, nil
}
