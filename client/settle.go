package client

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// AckSubject is the subject that settles the lease, "" without a lease: another program
// can settle with [Client.Attach], and any NATS client with a message to this subject.
func (i *Item) AckSubject() string { return i.ack.own }

// Attach returns an item that can only be settled, from the [Item.AckSubject] of its
// lease.
func (c *Client) Attach(ackSubject string) (*Item, error) {
	ack, queue, err := c.acks.parse(ackSubject)
	if err != nil {
		return nil, err
	}
	return &Item{Queue: queue, ack: ack, queue: c.Queue(queue)}, nil
}

// Ack acknowledges the item. When it returns nil, the item is gone for good. After
// [ErrLeaseLost] another consumer has had the item, or will.
func (i *Item) Ack(ctx context.Context) error { return i.settle(ctx, "ack", protocol.SettleAck) }

// AckWith is Ack, and says what came of the work: the queue keeps that as the [Result] of the item, if its push asked for one with
// [ResultTTL]. If the item has ended otherwise by then, such as by its TTL, AckWith returns [ErrLeaseLost]. A larger result than an
// item may have fails with [ErrTooLarge], and the lease goes on.
func (i *Item) AckWith(ctx context.Context, result []byte) error {
	return i.once(func() error {
		_, err := i.settlement(ctx, &settling{item: i, op: "ack", body: protocol.SettleAck + " " + string(result), result: true})
		return err
	})
}

// Nack gives the item back, because the work has failed. It is ready again at its former place as the
// queue's backoff says, at once if it has none. After its last failure (16 unless configured otherwise)
// it goes to the dead-letter queue instead.
func (i *Item) Nack(ctx context.Context) error { return i.settle(ctx, "nack", protocol.SettleNack) }

// NackWithDelay is Nack, and the item becomes ready after the delay, whatever the queue's backoff
// says: at once with 0.
func (i *Item) NackWithDelay(ctx context.Context, delay time.Duration) error {
	return i.NackWith(ctx, NackOptions{Delay: &delay})
}

// GiveBack gives the item back with nothing wrong with it: it is ready again at once at its former place, and the
// lease counts neither as a failure nor as an interruption. With a reason, such as "stopped", it is an attempt;
// with "" it counts as if nobody had begun with the item. Up to 200 bytes of the reason are kept.
func (i *Item) GiveBack(ctx context.Context, reason string) error {
	return i.settle(ctx, "give back", backWord(reason))
}

// Terminate sends the item to the dead-letter queue, because trying again would
// not help. The reason is kept with it.
func (i *Item) Terminate(ctx context.Context, reason string) error {
	return i.settle(ctx, "terminate", terminateWord(reason))
}

func backWord(reason string) string {
	return strings.TrimSpace(protocol.SettleBack + " " + fitReason(reason))
}

func terminateWord(reason string) string { return protocol.SettleTerminate + " " + fitReason(reason) }

// settle ends the lease, once.
func (i *Item) settle(ctx context.Context, op, body string) error {
	return i.once(func() error { return i.settleAs(ctx, op, body) })
}

// settleAs sends the settlement, with others if there are any.
func (i *Item) settleAs(ctx context.Context, op, body string) error {
	_, err := i.settlement(ctx, &settling{item: i, op: op, body: body})
	return err
}

// settlement sends a settlement or an extension, and returns the new end of an extended lease.
func (i *Item) settlement(ctx context.Context, one *settling) (until string, err error) {
	if !i.Leased() {
		return "", ErrNotLeased
	}
	return i.queue.client.settlements.settle(ctx, one)
}

// settleLater is settle without the wait for the answer. It calls ended once, with the result; ended must not
// block.
func (i *Item) settleLater(ctx context.Context, op, body string, ended func(error)) {
	if !i.beginSettle() {
		ended(ErrSettled)
		return
	}
	s := i.queue.client.settlements
	one := &settling{item: i, op: op, body: body}
	late := time.AfterFunc(i.queue.client.patience.timeout, func() { s.abandon(one, context.DeadlineExceeded) })
	one.ended = func(_ string, err error) {
		late.Stop()
		ended(i.endSettle(err))
	}
	s.depart(ctx, one)
}

// once runs a function that ends the lease, unless the lease has ended.
func (i *Item) once(end func() error) error {
	if !i.beginSettle() {
		return ErrSettled
	}
	return i.endSettle(end())
}

// beginSettle returns false if the lease has ended.
func (i *Item) beginSettle() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	settled := i.settled
	i.settled = true
	return !settled
}

// endSettle returns the result of an attempt to end the lease.
func (i *Item) endSettle(err error) error {
	if err != nil && !errors.Is(err, ErrLeaseLost) {
		i.mu.Lock()
		i.settled = false // the caller may try again
		i.mu.Unlock()
	}
	return err
}

// Extend starts the lease afresh: it lasts from now for its first length.
func (i *Item) Extend(ctx context.Context) error {
	if i.isSettled() {
		return ErrSettled
	}
	until, err := i.settlement(ctx, &settling{item: i, op: "extend", body: protocol.SettleProgress})
	if err != nil || until == "" {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return readHeader(protocol.HeaderLeaseExpires, []string{until}, &i.expires)
}

func (i *Item) isSettled() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.settled
}

// tookEffect reports whether the reason for refusing a repeated settlement means that an earlier attempt took effect and
// its answer was lost.
func tookEffect(op string, reason Reason) bool {
	switch op {
	case "ack", "terminate":
		return reason == ReasonGone
	case "nack", "give back":
		return true // the item is back in either case
	}
	return false
}
