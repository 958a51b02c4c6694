package bridge

import (
	"bytes"
	"errors"
	"math"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
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
	settleReturn // no client received the item
)

// settlement is a message on an ack subject.
type settlement struct {
	request.Request
	kind   settleKind
	lease  fdbpq.Lease
	leased time.Duration // what the pop asked for that the lease is from
	delay  time.Duration // of a nack
	reason string        // of a term
	next   *popRequest   // of a +NXT
	order  orderPlace    // among the settlements of its lease

	bundle *settlements // that the message has, nil if it has one settlement
	within *settlements // bundle that it is part of, nil if it has come in a message of its own
	number int          // of it in that bundle

	renewed *fdbpq.Lease // with a new end
}

var settlementPool pool[settlement]

func makeSettlement(subjects.Verb) work { return settlementPool.get() }

func (s *settlement) End() {
	s.order.leave()
	if s.within != nil {
		s.within.ended(s)
	}
	settlementPool.put(s)
}

const settleForms = `"", +ACK, +OK, -NAK, -NAK {"delay":<ns>}, -NAK 5s, +WPI, +TERM [reason] or +NXT [pop request]`

func (s *settlement) read(wr *wire) *failure.Failure {
	if size, is := s.Msg.Header[protocol.HeaderBundle]; is {
		return s.readBundle(wr, size)
	}
	terms, f := s.open(wr)
	if f != nil {
		return f
	}
	rest, f := s.readWord(s.Msg.Data)
	switch {
	case f != nil:
		return f
	case s.kind == settleNext:
		s.next = &popRequest{terms: terms, limit: 1}
		return s.next.readOptions("the request behind +NXT", rest, s.Msg.Header, false)
	}
	return noOwnHeaders(s.Msg.Header, "a settlement")
}

// open reads which lease the settlement is about, and the terms of the pop that gave it.
func (s *settlement) open(wr *wire) (t terms, f *failure.Failure) {
	s.lease, t, f = wr.sealer.open(s.Subject.Queue, s.Subject.Token)
	s.leased = t.lease
	return t, f
}

// readWord reads what a settlement does. It returns what follows +NXT.
func (s *settlement) readWord(body []byte) (rest []byte, f *failure.Failure) {
	verb, behind := body, body[len(body):]
	if i := bytes.IndexAny(verb, " \t\r\n{"); i > 0 {
		verb, behind = verb[:i], verb[i:]
	}
	rest = bytes.TrimSpace(behind)
	switch string(verb) {
	case "", protocol.SettleAck, protocol.SettleOK:
		s.kind = settleAck
	case protocol.SettleNack:
		s.kind = settleNack
		s.delay, f = readNackDelay(rest)
		return nil, f
	case protocol.SettleTerminate:
		s.kind = settleTerm
		s.reason = reasonText(rest)
		return nil, nil
	case protocol.SettleNext:
		s.kind = settleNext
	case protocol.SettleProgress:
		s.kind = settleProgress
	default:
		return nil, failure.Newf(400, "a settlement is %s: expected %s", failure.Quote(string(verb)), settleForms)
	}
	if s.kind != settleNext && len(behind) > 0 { // JetStream ignores such a message
		return nil, errFollowed(behind)
	}
	return rest, nil
}

func errFollowed(rest []byte) *failure.Failure {
	return failure.Newf(400, "a settlement is followed by %s: expected nothing", failure.Quote(string(rest)))
}

// readNackDelay reads what may follow -NAK.
func readNackDelay(rest []byte) (time.Duration, *failure.Failure) {
	if len(rest) == 0 {
		return 0, nil
	}
	if rest[0] != '{' {
		return readDuration("the delay of -NAK", string(rest), 0, fdbpq.MaxDelay)
	}
	var delay time.Duration
	f := readObject("the object behind -NAK", rest, "delay", func(name string, value any) (bool, *failure.Failure) {
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
	s := failure.HeaderText(string(b))
	return s[:min(len(s), protocol.MaxReason)]
}

// apply settles the lease within a transaction. A lost lease is an answer, and so
// is that there is no queue for dead letters; any other error ends the transaction.
func (s *settlement) apply(tx kv.Tx, q fdbpq.Queue) ([]fdbpq.Event, error) {
	s.Failure, s.renewed = nil, nil
	var done fdbpq.Settled
	var err error
	switch s.kind {
	case settleAck, settleNext:
		done, err = q.Ack(tx, s.lease)
	case settleNack:
		done, err = q.Nack(tx, s.lease, fdbpq.Nack{Delay: &s.delay})
	case settleProgress:
		done, err = q.Extend(tx, s.lease, s.leased)
	case settleTerm:
		done, err = q.Terminate(tx, s.lease, s.reason)
	case settleReturn:
		done, err = q.Return(tx, s.lease)
	}
	var lost *fdbpq.LostError
	if errors.As(err, &lost) || errors.Is(err, fdbpq.ErrNoDeadLetterQueue) {
		s.Failure = failure.Explain(err)
		return nil, nil
	}
	s.renewed = done.Lease
	return done.Events, err
}

// answer reports by an empty message that a settlement took effect.
func (s *settlement) answer(re *request.Responder) {
	if s.Msg.Reply != "" {
		m := &nats.Msg{Subject: s.Msg.Reply}
		if s.renewed != nil {
			m.Header = nats.Header{protocol.HeaderLeaseExpires: {timeText(s.renewed.Expires)}}
		}
		re.Publish(m)
	}
	re.Done(&s.Request, nil)
}

// count adds what a settlement has done to its item. The death of an item is an event.
func (s *settlement) count(tally *request.Tally) {
	if s.Failure != nil {
		return
	}
	switch s.kind {
	case settleAck, settleNext:
		tally[request.Acknowledged]++
	case settleNack, settleReturn:
		tally[request.Returned]++
	}
}

// endsLease reports whether a settlement that took effect has ended its lease for good.
func (s *settlement) endsLease() bool {
	return s.Failure == nil && s.kind != settleProgress && s.kind != settleReturn
}
