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
	c := &consumer{queue: i.queue, joint: jointly{client: i.queue.client, queue: i.Queue}, handle: handle, options: ConsumeOptions{OnError: onError}, ctx: ctx, work: ctx}
	i.joint = &c.joint
	c.begin(i)
}

// WaitsToSettle is how many settlements wait to go together, of those that go with the item's.
func (i *Item) WaitsToSettle() int {
	i.joint.mu.Lock()
	defer i.joint.mu.Unlock()
	return len(i.joint.waiting)
}

// Lanes is how many lanes a client has.
func (c *Client) Lanes() int {
	c.pushes.mu.Lock()
	defer c.pushes.mu.Unlock()
	return len(c.pushes.of)
}

// BundleAgain has the client forget that a bridge knows no bundles.
func (c *Client) BundleAgain() { c.pushes.apartUntil.Store(nil) }
