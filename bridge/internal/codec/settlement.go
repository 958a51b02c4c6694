package codec

import (
	"bytes"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// SettleKind is a kind of settlement.
type SettleKind uint8

const (
	SettleAck SettleKind = iota
	SettleNack
	SettleProgress
	SettleTerm
	SettleNext
	SettleBack
	SettleReturn // no client received the item
)

// Settlement is a message on an ack subject.
type Settlement struct {
	Kind   SettleKind
	Lease  fdbpq.Lease
	Leased time.Duration  // the length for which the pop of the lease asked
	Delay  *time.Duration // of a nack, nil if it names none
	Reason string         // of a nack, a term, or a back
	Next   *PopRequest    // of a +NXT
	Result []byte         // of an ack; nil: it has none, and one without bytes is none, too, but was given
}

// ReadSettlement reads a settlement.
func (w *Wire) ReadSettlement(on *subjects.Subject, m *nats.Msg) (s Settlement, f *failure.Failure) {
	if _, is := m.Header[protocol.HeaderFrames]; is {
		return s, failure.Newf(400, "%s without %s: expected the number of frames there", protocol.HeaderFrames, protocol.HeaderBundle)
	}
	terms, f := w.open(&s, on)
	if f != nil {
		return s, f
	}
	rest, f := s.readWord(m.Data)
	switch {
	case f != nil:
		return s, f
	case s.Kind == SettleNext:
		next, f := readPop(terms, "the request behind +NXT", rest, m.Header, popOptions{})
		s.Next = &next
		return s, f
	case s.Result != nil:
		if f := w.Limit.admitResult(s.Result); f != nil {
			return s, f
		}
	}
	if w.comesWithItem(on, m.Header) {
		return s, nil
	}
	return s, NoOwnHeaders(m.Header, "a settlement")
}

// comesWithItem reports whether a settlement has the headers of the item that it settles:
// clients that answer a message may send them back.
func (w *Wire) comesWithItem(on *subjects.Subject, header nats.Header) bool {
	acks := header[protocol.HeaderAck]
	if len(acks) != 1 {
		return false
	}
	item, err := w.Grammar.Parse(acks[0])
	return err == nil && item.Verb == on.Verb && item.Queue == on.Queue && item.Token == on.Token
}

// open reads the lease of a settlement, and the terms of the pop that gave it.
func (w *Wire) open(s *Settlement, on *subjects.Subject) (t Terms, f *failure.Failure) {
	s.Lease, t, f = w.Sealer.Open(on.Queue, on.Token)
	s.Leased = t.Lease
	return t, f
}

const settleForms = `"", +ACK, +ACK <result>, +OK, -NAK, -NAK {"delay":<ns>,"reason":"..."}, -NAK 5s, +BACK [reason], +WPI, +TERM [reason] or +NXT [pop request]`

// readWord reads the kind of a settlement, and returns the text behind +NXT.
func (s *Settlement) readWord(body []byte) (rest []byte, f *failure.Failure) {
	if result, is := bytes.CutPrefix(body, []byte(protocol.SettleAck+" ")); is {
		s.Kind, s.Result = SettleAck, result
		return nil, nil
	}
	if f := checkSize("a settlement", len(body), protocol.MaxRequestBody); f != nil {
		return nil, f
	}
	verb, behind := body, body[len(body):]
	if i := bytes.IndexAny(verb, " \t\r\n{"); i > 0 {
		verb, behind = verb[:i], verb[i:]
	}
	rest = bytes.TrimSpace(behind)
	switch string(verb) {
	case "", protocol.SettleAck, protocol.SettleOK:
		s.Kind = SettleAck
	case protocol.SettleNack:
		s.Kind = SettleNack
		return nil, s.readNack(rest)
	case protocol.SettleBack:
		s.Kind = SettleBack
		s.Reason = reasonText(rest)
		return nil, nil
	case protocol.SettleTerminate:
		s.Kind = SettleTerm
		s.Reason = reasonText(rest)
		return nil, nil
	case protocol.SettleNext:
		s.Kind = SettleNext
	case protocol.SettleProgress:
		s.Kind = SettleProgress
	default:
		return nil, failure.Newf(400, "a settlement is %s: expected %s", failure.Quote(string(verb)), settleForms)
	}
	if s.Kind != SettleNext && len(behind) > 0 { // JetStream ignores such a message
		return nil, errFollowed(behind)
	}
	return rest, nil
}

func errFollowed(rest []byte) *failure.Failure {
	return failure.Newf(400, "a settlement is followed by %s: expected nothing", failure.Quote(string(rest)))
}

// reasonText is the kept part of the reason of +BACK, and of +TERM for the dead letter. Headers carry it unchanged,
// so it has no spaces at its ends.
func reasonText(b []byte) string { return strings.TrimSpace(fdbpq.ReasonText(string(b))) }
