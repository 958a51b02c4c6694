package client

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/lanes"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Settlements of a queue at the same time go together, whoever has popped the items, and extensions with them. The
// settlements of one lease keep their order.

// settlements are the settlements of a client that may go together.
type settlements struct {
	*lanes.Lanes[*settling]
	client *Client
	most   int           // in one message
	rights *lanes.Rights // to settle several leases at once
}

func newSettlements(c *Client, most int) *settlements {
	s := &settlements{client: c, most: most, rights: lanes.NewRights(c.mailbox.admitted.Load)}
	s.Lanes = lanes.New(s.bounds, func(key lanes.Key, calls []*settling) {
		s.ship(key, calls, func() { s.Land(key) })
	})
	return s
}

func (s *settlements) bounds() (calls, bytes int) {
	return s.most, lanes.Bytes(s.client.nc.MaxPayload())
}

// together reports whether settlements of a queue may go together.
func (s *settlements) together(queue string) bool {
	may, known := s.rights.Of(queue)
	return may || !known
}

// settling is a settlement that waits for its answer.
type settling struct {
	item     *Item
	op, body string
	single   bool                          // it has a message of its own
	result   bool                          // the body has the result of the work
	cost     string                        // of the delivery, as a header has it; "": not known
	ended    func(until string, err error) // is called once; of an extension with the end of the lease

	place caller
}

func (s *settling) Bytes() int {
	n := len(s.item.ack.written) + len(s.body) + framing
	if s.cost != "" {
		n += len(protocol.HeaderCost+": \n") + len(s.cost)
	}
	return n
}

// noteCost has the settlement say what the delivery has cost, unless nobody has begun with the item.
func (s *settling) noteCost() {
	if s.body != protocol.SettleBack {
		s.cost = s.item.cost()
	}
}

// framed reports whether a line of a bundle has no room for the settlement.
func (s *settling) framed() bool { return s.result || s.cost != "" }

func (s *settling) Apart() bool             { return s.single }
func (s *settling) GoesWith(*settling) bool { return true }

// framing is what a frame with a settlement has besides; a line has less.
const framing = len("1000 100000\n" + protocol.HeaderAck + ": \n\n")

// settle settles a lease, with others if there are any. An extension returns when the lease ends.
func (s *settlements) settle(ctx context.Context, one *settling) (until string, err error) {
	ctx, cancel := s.client.bounded(ctx, 0)
	defer cancel()
	done := make(chan struct{})
	one.ended = func(u string, e error) {
		until, err = u, e
		close(done)
	}
	s.depart(ctx, one)
	select {
	case <-done:
	case <-ctx.Done():
		s.abandon(one, ctx.Err())
		<-done
	}
	return until, err
}

// settleMany settles leases of a queue by one message, apart from other settlements that wait, and returns when all
// have ended.
func (s *settlements) settleMany(ctx context.Context, queue string, all []*settling) {
	ctx, cancel := s.client.bounded(ctx, 0)
	defer cancel()
	var left sync.WaitGroup
	for _, one := range all {
		left.Add(1)
		ended := one.ended
		one.ended = func(until string, err error) {
			ended(until, err)
			left.Done()
		}
	}
	for _, one := range all {
		one.noteCost()
	}
	if err := s.mayDepart(ctx, all[0].op, queue); err != nil {
		for _, one := range all {
			one.fail(err)
		}
		return
	}
	s.ship(lanes.Key{Queue: queue}, all, func() {})
	defer context.AfterFunc(ctx, func() {
		for _, one := range all {
			s.abandon(one, ctx.Err())
		}
	})()
	left.Wait()
}

// mayDepart returns the reason for which nothing may be sent, if trying again does not help.
func (s *settlements) mayDepart(ctx context.Context, op, queue string) error {
	if err := s.client.refusedForGood(ctx, op, queue); err != nil {
		return err
	}
	return ctx.Err()
}

// depart sends a settlement, alone or with others.
func (s *settlements) depart(ctx context.Context, one *settling) {
	if err := s.mayDepart(ctx, one.op, one.item.Queue); err != nil {
		one.fail(err)
		return
	}
	one.noteCost()
	key := lanes.Key{Queue: one.item.Queue}
	if s.most == 1 {
		s.ship(key, []*settling{one}, func() {})
		return
	}
	one.single = !s.together(key.Queue) || !s.fits(one)
	if _, alone := s.Join(key, key, one); alone {
		s.ship(key, []*settling{one}, func() { s.Land(key) })
	} else {
		one.place.joined(key)
	}
}

// fits reports whether a settlement may go with others.
func (s *settlements) fits(one *settling) bool {
	if one.framed() {
		return one.Bytes() <= lanes.MaxTogether
	}
	return one.Bytes() <= protocol.MaxBundledSettlement
}

// abandon ends a settlement whose caller waits no longer, unless it has ended.
func (s *settlements) abandon(one *settling, why error) {
	if key, by := one.place.where(); by == nil {
		s.TakeOut(key, one)
	}
	one.fail(why)
}

// end ends a settlement, unless it has ended.
func (s *settling) end(result func(tried attempts) (until string, err error)) {
	if tried, first := s.place.end(); first {
		s.ended(result(tried))
	}
}

// succeed ends a settlement that took effect: that of an extension with the end of the lease.
func (s *settling) succeed(until string, dropped bool) {
	var err error
	if dropped {
		err = ErrProgressDropped
	}
	s.end(func(attempts) (string, error) { return until, err })
}

// fail ends a settlement with an error.
func (s *settling) fail(err error) {
	s.end(func(tried attempts) (string, error) {
		var e *Error
		switch {
		case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
			err = ended(s.op, s.item.Queue, tried.sent, tried.refusal, err)
		case !errors.As(err, &e):
		case e.Code == protocol.CodeLeaseLost && tried.open() && tookEffect(s.op, e.Reason):
			return "", nil
		default:
			e = new(*e) // each caller may change its own
			e.Op, err = s.op, e
		}
		return "", inDoubt(err, tried.open())
	})
}

// settleBundle is a message with settlements, under way.
type settleBundle struct {
	sending
	calls  []*settling
	framed bool // some of them have results, for which lines have no room
	land   func()
}

// ship sends settlements in one message, and calls landed when it is not under way any more.
func (s *settlements) ship(key lanes.Key, calls []*settling, landed func()) {
	b := s.newBundle(key, calls, landed)
	err := b.load()
	if err == nil {
		err = b.begin()
	}
	if err != nil {
		b.finish(nil, err)
	}
}

func (s *settlements) newBundle(key lanes.Key, calls []*settling, landed func()) *settleBundle {
	b := &settleBundle{land: landed}
	b.client, b.op, b.queue, b.callers = s.client, calls[0].op, key.Queue, len(calls)
	b.repeatable, b.done, b.unwanted, b.msg = true, b.conclude, landed, &nats.Msg{}
	b.receive()
	for _, one := range calls {
		if one.place.board(&b.sending) {
			b.calls = append(b.calls, one)
		}
	}
	return b
}

// load writes the message.
func (b *settleBundle) load() (err error) {
	if len(b.calls) > 1 {
		b.divides, b.silent = refusesOne, b.refused
		b.msg.Subject, err = b.client.grammar.Build(subjects.Subject{Queue: b.queue, Verb: subjects.Ack, Conn: "bundle", Token: "settle"})
		b.msg.Header = nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(b.calls))}}
		if b.framed = slices.ContainsFunc(b.calls, (*settling).framed); b.framed {
			b.msg.Header[protocol.HeaderFrames] = []string{"true"}
		}
		b.write()
	} else if len(b.calls) == 1 {
		one := b.calls[0]
		b.msg.Subject, b.msg.Data = one.item.ack.own, []byte(one.body)
		if one.cost != "" {
			b.msg.Header = nats.Header{protocol.HeaderCost: {one.cost}}
		}
	}
	return err
}

// write writes the settlements of several leases.
func (b *settleBundle) write() {
	size := 0
	for _, one := range b.calls {
		size += one.Bytes()
	}
	to := make([]byte, 0, size)
	for _, one := range b.calls {
		if b.framed {
			header := protocol.HeaderAck + ": " + one.item.ack.written + "\n"
			if one.cost != "" {
				header += protocol.HeaderCost + ": " + one.cost + "\n"
			}
			to = protocol.AppendFrame(to, []byte(header), []byte(one.body))
		} else {
			to = append(append(to, one.item.ack.written...), ' ')
			to = append(append(to, protocol.OneLine(one.body)...), '\n')
		}
	}
	b.msg.Data = to
}

// refused reports whether the user may settle one lease, but not several at once. The client then sees nothing but
// the server's permission error, so a first bundle without an answer is sent again one by one.
func (b *settleBundle) refused() bool {
	may, _ := b.client.settlements.rights.Of(b.queue)
	if last := b.client.nc.LastError(); last != nil && errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), b.msg.Subject) {
		b.client.settlements.rights.Set(b.queue, false)
	}
	return !may
}

// conclude gives each settlement its result.
func (b *settleBundle) conclude(m *nats.Msg, err error) {
	b.land()
	all := b.client.settlements
	var e *Error
	switch {
	case len(b.calls) == 1:
		b.concludeOne(m, err)
	case err == errSilence || errors.As(err, &e) && refusesOne(e):
		for _, one := range b.calls {
			one.place.unboard(false)
			all.ship(lanes.Key{Queue: b.queue}, []*settling{one}, func() {})
		}
	case err != nil:
		b.fail(err)
	default:
		all.rights.Set(b.queue, true)
		b.read(m)
	}
}

func (b *settleBundle) concludeOne(m *nats.Msg, err error) {
	if err != nil {
		b.calls[0].fail(err)
		return
	}
	until := ""
	if values := m.Header[protocol.HeaderLeaseExpires]; len(values) > 0 {
		until = values[0]
	}
	b.calls[0].succeed(until, m.Header.Get(protocol.HeaderNote) == protocol.ResultDropped)
}

// fail ends all settlements with an error.
func (b *settleBundle) fail(err error) {
	for _, one := range b.calls {
		one.fail(err)
	}
}

// read reads the answer to a bundle. Settlements that may succeed later are sent again, alone.
func (b *settleBundle) read(m *nats.Msg) {
	results, err := results(b.queue, m, len(b.calls))
	if err != nil {
		b.fail(err)
		return
	}
	for i, one := range b.calls {
		until, dropped, e := one.read(results[i])
		switch {
		case e == nil:
			one.succeed(until, dropped)
		case e.again(true):
			b.repeat(one, e)
		default:
			one.fail(e)
		}
	}
}

// repeat sends one of the settlements again, alone.
func (b *settleBundle) repeat(one *settling, why *Error) {
	one.place.unboard(why.Code == protocol.CodeUnknownResult)
	again := b.client.settlements.newBundle(lanes.Key{Queue: b.queue}, []*settling{one}, func() {})
	again.retry = b.retry
	if err := again.load(); err != nil {
		again.finish(nil, err)
	} else if !again.resend(why) {
		again.finish(nil, why)
	}
}

// results divides the answer to a bundle.
func results(queue string, m *nats.Msg, n int) ([]string, *Error) {
	all := strings.Split(strings.TrimSuffix(string(m.Data), "\n"), "\n")
	if len(all) != n {
		return nil, unreadable("ack", queue, m.Data, nil)
	}
	return all, nil
}

// read reads the result of a settlement in the answer to a bundle: when an extended lease ends, and whether what its holder said was dropped.
func (s *settling) read(result string) (until string, dropped bool, err *Error) {
	is, ok := protocol.ReadSettled(result)
	switch {
	case !ok:
		return "", false, unreadable(s.op, s.item.Queue, []byte(result), nil)
	case is.Refused != nil:
		return "", false, &Error{Op: s.op, Queue: s.item.Queue, Code: is.Refused.Code, Reason: is.Refused.Reason, Description: is.Refused.Description}
	}
	return is.Until, s.op == "extend" && is.Kept == protocol.ResultDropped, nil
}
