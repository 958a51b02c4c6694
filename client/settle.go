package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
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
		_, err := i.settlement(ctx, &settling{item: i, op: "ack", body: ackWord(result), result: true})
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

func ackWord(result []byte) string { return protocol.SettleAck + " " + string(result) }

func backWord(reason string) string {
	return strings.TrimSpace(protocol.SettleBack + " " + fitReason(reason))
}

func terminateWord(reason string) string { return protocol.SettleTerminate + " " + fitReason(reason) }

// Spent says what this delivery has really cost so far, from 0 on, where its [Cost] was a guess. The message that ends the lease says so
// to the queue, which corrects what it has reserved, to either side. An extension before that reserves more if it has to, so
// that the truth is not lost with the worker. A delivery costs 1,000,000 at most: more counts as that, less than 0 as 0, since the work is
// done all the same.
func (i *Item) Spent(cost int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.spent = strconv.FormatInt(min(max(cost, 0), protocol.MaxCost), 10)
}

// cost is what the delivery has really cost, "" if that is not known.
func (i *Item) cost() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.spent
}

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
func (i *Item) settleLater(ctx context.Context, one *settling, ended func(error)) {
	if !i.beginSettle() {
		ended(ErrSettled)
		return
	}
	s := i.queue.client.settlements
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
func (i *Item) Extend(ctx context.Context) error { return i.extend(ctx, protocol.SettleProgress) }

// Report is Extend, and says how far the work is: up to 4 KiB of text in one line, such as JSON. The item keeps the text in place of the one
// before, until it ends. Whoever looks at it sees the text, and the next holder gets it as [Item.Progress], so a job that is interrupted
// goes on where it was. The error is [ErrProgressDropped] if there is no room for the text; the lease is extended all the same.
func (i *Item) Report(ctx context.Context, text string) error {
	return i.extend(ctx, strings.TrimSpace(protocol.SettleProgress+" "+text))
}

func (i *Item) extend(ctx context.Context, body string) error {
	if i.isSettled() {
		return ErrSettled
	}
	until, err := i.settlement(ctx, &settling{item: i, op: "extend", body: body})
	if until == "" {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return cmp.Or(err, readHeader(protocol.HeaderLeaseExpires, []string{until}, &i.expires))
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

// ackSubjects are the subjects on which a client settles leases. The client never publishes
// a settlement elsewhere: a forged item could otherwise use the client's rights.
type ackSubjects struct {
	own    subjects.Grammar
	bridge subjects.Grammar // as the bridge writes them
}

// ackSubject is the subject that settles a lease. The zero value settles none.
type ackSubject struct {
	own     string
	written string // as the bridge writes it, and as a bundle or a push names a lease
}

// parse returns the subject on which to settle a lease, from either form of it.
func (a ackSubjects) parse(subject string) (ack ackSubject, queue string, err error) {
	ack = ackSubject{subject, subject}
	s, err := a.own.Parse(subject)
	switch {
	case a.bridge == a.own:
	case err == nil:
		ack.written, err = a.bridge.Build(s)
	default:
		if s, err = a.bridge.Parse(subject); err == nil {
			ack.own, err = a.own.Build(s)
		}
	}
	if err == nil && s.Verb != subjects.Ack {
		err = fmt.Errorf("subject %q: expected one that settles a lease", subject)
	}
	if err != nil {
		return ackSubject{}, "", err
	}
	return ack, s.Queue, nil
}

// leaseOf returns the subject that settles an item's lease: the reply subject, or PQ-Ack if
// the item has come through another account. It settles none if neither is an ack subject of the
// queue. An empty queue allows any.
func (a ackSubjects) leaseOf(queue string, m *nats.Msg) ackSubject {
	from := [2]string{m.Reply}
	if values := m.Header[protocol.HeaderAck]; len(values) == 1 {
		from[1] = values[0]
	}
	for _, subject := range from {
		if subject == "" {
			continue
		}
		if ack, of, err := a.parse(subject); err == nil && (queue == "" || of == queue) {
			return ack
		}
	}
	return ackSubject{}
}

// AckMany acknowledges items of the queue, up to [MaxMany] in one message, and returns what
// [Item.Ack] would return for each, or nil if all of them are gone for good.
func (q *Queue) AckMany(ctx context.Context, items ...*Item) []error {
	errs := make([]error, len(items))
	var all []*settling
	for i, item := range items {
		switch {
		case !item.Leased():
			errs[i] = ErrNotLeased
		case !item.beginSettle():
			errs[i] = ErrSettled
		default:
			all = append(all, &settling{item: item, op: "ack", body: protocol.SettleAck, ended: func(_ string, err error) {
				errs[i] = item.endSettle(err)
			}})
		}
	}
	for some := range slices.Chunk(all, MaxMany) {
		q.client.settlements.settleMany(ctx, q.name, some)
	}
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return errs
	}
	return nil
}

// HandOver pushes an item to a queue and acknowledges this one, in one transaction: both take effect, or neither
// does. The hand_over of this item's queue has to name the other queue.
//
// After [ErrLeaseLost] nothing was pushed: another consumer has had the item, or will. After [ErrUnknownResult]
// call it again with the same [MsgID]. A second call without an id fails with [ErrLeaseLost] if the first took
// effect, and pushes nothing.
func (i *Item) HandOver(ctx context.Context, to *Queue, payload []byte, opts ...PushOption) (pushed Pushed, err error) {
	if !i.Leased() {
		return Pushed{}, ErrNotLeased
	}
	settle := func(p *push) { p.header.Set(protocol.HeaderSettle, i.ack.written) }
	err = i.once(func() (err error) {
		pushed, err = to.Push(ctx, payload, append(opts[:len(opts):len(opts)], settle)...)
		return err
	})
	return pushed, err
}
