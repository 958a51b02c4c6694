package client

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
)

// AskAgainAfter makes the client repeat unanswered requests after d.
func (c *Client) AskAgainAfter(d time.Duration) { c.patience.attempt = d }

// LeaveMargin makes waits end so long before their contexts.
func (c *Client) LeaveMargin(d time.Duration) { c.patience.margin = d }

// ConfirmWithin makes the client keep what it has waited for and pops for good for d.
func (c *Client) ConfirmWithin(d time.Duration) { c.patience.confirm = d }

// StoppedBells have stopped, and keep the subscriptions that come behind that.
func (c *Client) StoppedBells() (keep func(*nats.Subscription)) {
	b := &bells{client: c}
	b.stop()
	return b.keep
}

// ExtendOften makes the client extend each lease n times within its length.
func (c *Client) ExtendOften(n int) { c.patience.extend = n }

// ExtendInterval is how often the lease is extended, and how long it counts as held
// without an extension.
func (i *Item) ExtendInterval(now time.Time) (every, term time.Duration) {
	return i.extendInterval(now)
}

// AnswerInVain has three messages answer a request that looks at the first one
// only, and ends before the last one comes.
func (c *Client) AnswerInVain(read, unread, late *nats.Msg) {
	a := newAnswers(c.mailbox)
	a.add(answer{Msg: read})
	a.add(answer{Msg: unread})
	a.next()
	a.close()
	a.add(answer{Msg: late})
}

// BeginAfterTheEnd has a Consume get an item as it ends.
func (i *Item) BeginAfterTheEnd(handle Handler, onError func(*Item, error)) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := &consumer{queue: i.queue, handle: handle.work(), options: ConsumeOptions{OnError: onError}, ctx: ctx, work: ctx}
	c.begin(i, closed)
}

// BeginWithoutLease has a Consume begin with an item whose lease was lost while the one before was settled.
func (i *Item) BeginWithoutLease(handle Handler, onError func(*Item, error)) {
	lost, cancel := context.WithCancelCause(context.Background())
	cancel(ErrLeaseLost)
	c := &consumer{queue: i.queue, handle: handle.work(), options: ConsumeOptions{OnError: onError}, ctx: context.Background(), work: lost}
	c.serve(lost, i, func() {})
}

// Waiting is how many pushes and settlements of a queue have not left yet.
func (q *Queue) Waiting() int {
	return q.client.pushes.Waiting(q.name) + q.client.settlements.Waiting(q.name)
}

// Lanes is how many lanes a client has.
func (c *Client) Lanes() int { return c.pushes.Len() + c.settlements.Len() }

var (
	ReadResults      = readResults
	ReadPlainResults = readPlainResults
)
