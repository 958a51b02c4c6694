package client

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Settlements of a queue at the same time go together, whoever has popped the items, and extensions with
// them. Those of one lease keep their order.

// settlements are those of a client that may go together.
type settlements struct {
	*lanes[*settling]
	client *Client
	most   int    // in one message
	rights rights // to settle several leases at once

	apartUntil atomic.Pointer[time.Time]
}

func newSettlements(c *Client, most int) *settlements {
	s := &settlements{client: c, most: most, rights: rights{connection: c.mailbox.admitted.Load}}
	s.lanes = newLanes(s.bounds, s.ship)
	return s
}

func (s *settlements) bounds() (calls, bytes int) {
	return s.most, min(maxBundleBytes, int(s.client.nc.MaxPayload())/maxBundleShare)
}

// together reports whether settlements of a queue may go together.
func (s *settlements) together(queue string) bool {
	if until := s.apartUntil.Load(); until != nil && time.Now().Before(*until) {
		return false
	}
	may, known := s.rights.of(queue)
	return may || !known
}

// settling is a settlement that waits for its answer.
type settling struct {
	item     *Item
	op, body string
	single   bool // it has a message of its own

	place  caller
	done   chan struct{} // closed when the following are there
	until  string        // of an extension: when the lease ends
	err    error
	again  bool // it has to go again, alone
	before int  // attempts that may have taken effect
}

func (s *settling) bytes() int              { return len(s.item.ack) + len(s.body) + len(" \n") }
func (s *settling) apart() bool             { return s.single }
func (s *settling) goesWith(*settling) bool { return true }

// appendLine appends the settlement to a bundle.
func (s *settling) appendLine(b []byte) ([]byte, error) {
	subject, err := s.item.queue.client.acks.written(s.item.ack)
	if err != nil {
		return b, err
	}
	b = append(append(b, subject...), ' ')
	return append(append(b, oneLine.Replace(s.body)...), '\n'), nil
}

// settle settles a lease, with others if there are any. An extension returns when the lease ends.
func (s *settlements) settle(ctx context.Context, item *Item, op, body string) (until string, err error) {
	one := &settling{item: item, op: op, body: body, done: make(chan struct{})}
	if s.most == 1 {
		return one.alone(ctx)
	}
	one.single = one.bytes() > protocol.MaxBundledSettlement || !s.together(item.Queue)
	key := laneKey{queue: item.Queue}
	if _, alone := s.join(key, key, one); alone {
		defer s.land(key)
		return one.alone(ctx)
	}
	one.place.joined(key)
	ctx, cancel := s.client.bounded(ctx)
	defer cancel()
	select {
	case <-one.done:
	case <-ctx.Done():
		s.takeOut(key, one)
		if tried, first := one.place.end(); first {
			return "", inDoubt(ended(op, item.Queue, tried.sent, tried.refusal, ctx.Err()), tried.open())
		}
		<-one.done
	}
	return one.result(ctx)
}

// result returns what has become of a settlement, after it has gone alone if it has to.
func (s *settling) result(ctx context.Context) (until string, err error) {
	if s.again {
		return s.alone(ctx)
	}
	return s.until, s.err
}

// alone sends the settlement in a message of its own.
func (s *settling) alone(ctx context.Context) (until string, err error) {
	m, err := s.item.send(ctx, s.op, s.body, s.before)
	if err != nil {
		return "", err
	}
	if values := m.Header[protocol.HeaderLeaseExpires]; len(values) > 0 {
		until = values[0]
	}
	return until, nil
}

// settleBundle is a message with settlements, under way.
type settleBundle struct {
	sending
	calls []*settling
	land  func()
}

// ship sends settlements in one message.
func (s *settlements) ship(key laneKey, calls []*settling) {
	b := &settleBundle{land: func() { s.land(key) }}
	b.client, b.op, b.queue, b.callers = s.client, "ack", key.queue, len(calls)
	b.repeatable, b.done, b.unwanted = true, b.conclude, b.land
	b.divides, b.silent = refusesOne, b.refused
	b.msg = &nats.Msg{}
	b.receive()
	for _, one := range calls {
		if one.place.board(&b.sending) {
			b.calls = append(b.calls, one)
		}
	}
	err := b.load()
	if err == nil {
		err = b.begin()
	}
	if err != nil {
		b.finish(nil, err)
	}
}

// load writes the message.
func (b *settleBundle) load() (err error) {
	if len(b.calls) == 1 {
		b.msg.Subject, b.msg.Data = b.calls[0].item.ack, []byte(b.calls[0].body)
		b.op, b.silent, b.divides = b.calls[0].op, nil, nil
		return nil
	}
	b.msg.Subject, b.msg.Header, b.msg.Data, err = bundled(b.client, b.queue, b.calls)
	return err
}

// bundled is the message that settles leases.
func bundled(c *Client, queue string, calls []*settling) (subject string, header nats.Header, body []byte, err error) {
	subject, err = c.grammar.Build(subjects.Subject{Queue: queue, Verb: subjects.Ack, Conn: "bundle", Token: "settle"})
	size := 0
	for _, one := range calls {
		size += one.bytes()
	}
	body = make([]byte, 0, size)
	for _, one := range calls {
		if err == nil {
			body, err = one.appendLine(body)
		}
	}
	return subject, nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(calls))}}, body, err
}

// refused reports whether the user may settle one lease and not several at once. Then the server's
// permission error is all that comes, so a first bundle without an answer goes alone.
func (b *settleBundle) refused() bool {
	_, known := b.client.settlements.rights.of(b.queue)
	if last := b.client.nc.LastError(); last != nil && errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), b.msg.Subject) {
		b.client.settlements.rights.set(b.queue, false)
	}
	return !known
}

// conclude gives each settlement its result.
func (b *settleBundle) conclude(m *nats.Msg, err error) {
	b.land()
	if len(b.calls) == 1 {
		b.concludeOne(m, err)
		return
	}
	var e *Error
	switch {
	case err == errSilence || errors.As(err, &e) && refusesOne(e):
		if e != nil && e.Code == protocol.CodeBadRequest {
			b.client.settlements.apartUntil.Store(new(time.Now().Add(apartFor)))
		}
		for _, one := range b.calls {
			one.end(func(tried attempts) { one.again, one.before = true, tried.sent-tried.answers })
		}
	case err != nil:
		b.fail(err)
	default:
		b.client.settlements.rights.set(b.queue, true)
		b.read(m)
	}
}

func (b *settleBundle) concludeOne(m *nats.Msg, err error) {
	one := b.calls[0]
	one.end(func(tried attempts) {
		var e *Error
		switch {
		case err == nil:
			if values := m.Header[protocol.HeaderLeaseExpires]; len(values) > 0 {
				one.until = values[0]
			}
		case errors.As(err, &e) && e.Code == protocol.CodeLeaseLost && tried.open() && held(one.op, e.Reason):
		default:
			one.err = inDoubt(err, tried.open())
		}
	})
}

// end ends a settlement with its result, unless its caller waits no longer.
func (s *settling) end(set func(tried attempts)) {
	if tried, first := s.place.end(); first {
		set(tried)
		close(s.done)
	}
}

// fail ends all settlements with an error.
func (b *settleBundle) fail(err error) {
	for _, one := range b.calls {
		one.end(func(tried attempts) { one.err = inDoubt(named(err, one.op), tried.open()) })
	}
}

// named returns the error of one of the calls that an error is about.
func named(err error, op string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	own := *e
	own.Op = op
	return &own
}

// read reads the answer to a bundle.
func (b *settleBundle) read(m *nats.Msg) {
	results, err := results(b.queue, m, len(b.calls))
	if err != nil {
		b.fail(err)
		return
	}
	for i, one := range b.calls {
		one.end(func(tried attempts) { one.read(results[i], tried.sent-tried.answers) })
	}
}

// results divides the answer to a bundle.
func results(queue string, m *nats.Msg, n int) ([]string, error) {
	all := strings.Split(strings.TrimSuffix(string(m.Data), "\n"), "\n")
	if len(all) != n {
		return nil, unreadable("ack", queue, m.Data, nil)
	}
	return all, nil
}

// read reads the result of a settlement, after some attempts that may have taken effect.
// What may succeed later is sent again, alone.
func (s *settling) read(result string, before int) {
	if until, ok := strings.CutPrefix(result, protocol.ResultOK); ok && (until == "" || until[0] == ' ') {
		s.until = strings.TrimPrefix(until, " ")
		return
	}
	words := strings.SplitN(result, " ", 4)
	code := 0
	if len(words) >= 3 && words[0] == protocol.ResultError {
		code, _ = strconv.Atoi(words[1]) // 0 is no code either
	}
	if code == 0 {
		s.err = unreadable(s.op, s.item.Queue, []byte(result), nil)
		return
	}
	e := &Error{Op: s.op, Queue: s.item.Queue, Code: code, Reason: Reason(strings.TrimPrefix(words[2], "-")), Description: strings.Join(words[3:], "")}
	switch {
	case code == protocol.CodeLeaseLost && before > 0 && held(s.op, e.Reason):
	case e.again(true):
		s.again, s.before = true, before
		if code == protocol.CodeUnknownResult {
			s.before++
		}
	default:
		s.err = e
	}
}
