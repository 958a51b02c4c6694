package bridge

import (
	"bytes"
	"errors"
	"math"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// settleKind is what a settlement does.
type settleKind uint8

const (
	settleAck settleKind = iota
	settleNack
	settleProgress
	settleTerm
	settleNext
	settleReturn // nobody received the item
)

// settlement is what a message on an ack subject asks for.
type settlement struct {
	kind   settleKind
	lease  fdbpq.Lease
	delay  time.Duration // of a nack
	reason string        // of a term
	held   bool          // it took effect
}

const settleForms = `"", +ACK, +OK, -NAK, -NAK {"delay":<ns>}, -NAK 5s, +WPI, +TERM [reason] or +NXT [pop request]`

// readSettlement reads what a settlement asks for.
func (b *Bridge) readSettlement(r *request) *failure {
	s := &r.settle
	var f *failure
	if s.lease, r.pop, f = b.sealer.open(r.subject.Queue, r.subject.Token); f != nil {
		return f
	}
	verb, rest := r.msg.Data, []byte(nil)
	if i := bytes.IndexAny(verb, " \t\r\n{"); i > 0 {
		verb, rest = verb[:i], bytes.TrimSpace(verb[i:])
	}
	switch string(verb) {
	case "", protocol.SettleAck, protocol.SettleOK:
		s.kind = settleAck
	case protocol.SettleNack:
		s.kind = settleNack
		if s.delay, f = readNackDelay(rest); f != nil {
			return f
		}
		rest = nil
	case protocol.SettleProgress:
		s.kind = settleProgress
	case protocol.SettleTerminate:
		s.kind = settleTerm
		s.reason = reasonText(rest)
		rest = nil
	case protocol.SettleNext:
		s.kind = settleNext
		var o popOptions
		if f := o.readBody("the request behind +NXT", rest); f != nil {
			return f
		}
		if f := o.readHeaders(r.msg.Header); f != nil {
			return f
		}
		o.apply(&r.pop)
		return nil
	default:
		return failf(400, "a settlement is %s: expected %s", shown(string(verb)), settleForms)
	}
	if len(rest) > 0 {
		return failf(400, "%s is followed by %s: expected nothing", verb, shown(string(rest)))
	}
	return noOwnHeaders(r.msg.Header, "a settlement")
}

// readNackDelay reads what may follow -NAK.
func readNackDelay(rest []byte) (time.Duration, *failure) {
	if len(rest) == 0 {
		return 0, nil
	}
	if rest[0] != '{' {
		return readDuration("the delay of -NAK", string(rest), 0, fdbpq.MaxDelay)
	}
	var delay time.Duration
	f := readObject("the object behind -NAK", rest, "delay", func(name string, value any) (bool, *failure) {
		if name != "delay" {
			return false, nil
		}
		n, f := readInteger(name, value, math.MinInt64, math.MaxInt64)
		delay = time.Duration(n)
		if f == nil {
			f = checkDuration(name, delay, 0, fdbpq.MaxDelay)
		}
		return true, f
	})
	return delay, f
}

func reasonText(b []byte) string {
	s := headerText(string(b))
	return s[:min(len(s), protocol.MaxReason)]
}

// signal hears what arrives on the ack subjects of the items that this bridge
// handed out. Settlements go the way through the queue group as well and are
// left to it; only here the server tells that nobody received an item.
func (b *Bridge) signal(m *nats.Msg) {
	if !fromServer(m) {
		return
	}
	s, err := b.grammar.Parse(m.Subject)
	if err != nil {
		return
	}
	lease, _, f := b.sealer.open(s.Queue, s.Token)
	if f != nil {
		return
	}
	b.giveBack(lease)
}

// giveBack returns an item that did not reach whoever it was leased to. It is
// not refused under load: the lease running out would cost more.
func (b *Bridge) giveBack(lease fdbpq.Lease) {
	r := newRequest(&nats.Msg{})
	r.verb, r.subject = verbAck, subjects.Subject{Queue: lease.Queue, Verb: subjects.Ack}
	r.settle = settlement{kind: settleReturn, lease: lease}
	b.gate.force(r)
	b.settle(r)
}

// submitSettlement hands a settlement to a lane, whose turn it is.
func (b *Bridge) submitSettlement(r *request) {
	if r.settle.kind == settleNext && r.msg.Reply != "" {
		b.lanes.take.Submit(r.subject.Queue, r)
		return
	}
	b.settle(r)
}

// settle hands a settlement to a lane. Those of a store that this bridge has for
// itself go along with the queue's pops while there are any: workers settle as
// often as they pop, so that makes half as many transactions. Where bridges take
// turns and lose to each other, it is only pops that do.
func (b *Bridge) settle(r *request) {
	if b.options.Exclusive && b.lanes.take.Join(r.subject.Queue, r) {
		return
	}
	b.lanes.change.Submit(r.subject.Queue, r)
}

// settleIn runs a settlement within a transaction. A lost lease is an answer, and
// so is that there is no queue for dead letters; any other error ends the
// transaction.
func (r *request) settleIn(tx kv.Tx, q fdbpq.Queue) ([]fdbpq.Event, error) {
	var done fdbpq.Settled
	var err error
	s := &r.settle
	switch s.kind {
	case settleAck, settleNext:
		done, err = q.Ack(tx, s.lease)
	case settleNack:
		done, err = q.Nack(tx, s.lease, s.delay)
	case settleProgress:
		done, err = q.Extend(tx, s.lease, r.pop.lease)
	case settleTerm:
		done, err = q.Terminate(tx, s.lease, s.reason)
	case settleReturn:
		done, err = q.Return(tx, s.lease)
	}
	var lost *fdbpq.LostError
	if errors.As(err, &lost) || errors.Is(err, fdbpq.ErrNoDeadLetterQueue) {
		r.outcome.failure = explain(err)
		return nil, nil
	}
	r.outcome.lease = done.Lease
	return done.Events, err
}

// answerSettlement says that a settlement held: nothing but an empty message.
func (b *Bridge) answerSettlement(r *request) {
	if r.msg.Reply != "" {
		m := &nats.Msg{Subject: r.msg.Reply}
		if lease := r.outcome.lease; lease != nil {
			m.Header = nats.Header{protocol.HeaderLeaseExpires: {timeText(lease.Expires)}}
		}
		b.publish(m)
	}
	b.done(r, nil)
}
