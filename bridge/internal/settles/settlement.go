// Package settles has the requests that settle leases: acknowledgements and all other messages on ack subjects, alone and in
// bundles.
//
// What it guarantees: the settlements of a lease take effect in the order in which they arrive, those of a bundle in the order of
// its lines. A settlement of a bundle takes effect as if it had come alone, and the bundle is answered after the last of them. A
// settlement of a lost lease is answered so, and the others of its transaction take effect. An item that did not reach its consumer
// goes back to its queue, also under overload.
//
// The bridge decides in which turns a settlement takes effect, see its joinsPops.
package settles

import (
	"errors"
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Settlement is a message on an ack subject.
type Settlement struct {
	request.Request
	codec.Settlement
	place Place // among the settlements of its lease

	bundle *bundle // that the message has, nil if it has one settlement
	within *bundle // bundle that it is part of, nil if it has come in a message of its own
	number int     // of it in that bundle

	renewed  *fdbpq.Lease // with a new end
	kept     fdbpq.Kept   // what became of the result
	reserved int64        // of the cost, by the delivery
}

var pool desk.Pool[Settlement]

// Ack returns an empty settlement.
func Ack(subjects.Verb) desk.Work { return pool.Get() }

// Next is a +NXT that goes on as a pop.
type Next struct {
	request.Request
	Ask   codec.PopRequest
	Lease fdbpq.Lease // that it acknowledges first
}

// pass ends a +NXT as a settlement, and returns what goes on as a pop.
func (s *Settlement) pass() Next {
	next := Next{Request: s.Request, Ask: *s.Next, Lease: s.Lease}
	pool.Put(s)
	return next
}

// newReturn returns a settlement of the bridge's own: the item did not reach its consumer.
func newReturn(as *request.Verb, lease fdbpq.Lease) *Settlement {
	s := pool.Get()
	s.Prepare(s, as, subjects.Subject{Queue: lease.Queue, Verb: subjects.Ack}, &nats.Msg{})
	s.Kind, s.Lease = codec.SettleReturn, lease
	return s
}

func (s *Settlement) End() {
	s.place.Leave()
	if s.within != nil {
		s.within.ended(s)
	}
	pool.Put(s)
}

func (s *Settlement) Read(wr *codec.Wire) (f *failure.Failure) {
	if size, is := s.Msg.Header[protocol.HeaderBundle]; is {
		return s.openBundle(wr, size)
	}
	s.Settlement, f = wr.ReadSettlement(&s.Subject, s.Msg)
	return f
}

// openBundle reads how many settlements a bundle has. Their lines are read later.
func (s *Settlement) openBundle(wr *codec.Wire, size []string) *failure.Failure {
	sent, f := wr.OpenSettlements(s.Subject.Queue, s.Msg, size)
	if f != nil {
		return f
	}
	s.Bundled = sent.Len
	s.bundle = &bundle{message: s, sent: sent, limit: &wr.Limit}
	return nil
}

// Apply settles the lease within a transaction. A lost lease is an answer, and so are a missing dead-letter queue and a store without
// room for the item to stay; any other error ends the transaction.
func (s *Settlement) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	var done fdbpq.Settled
	var err error
	switch s.Kind {
	case codec.SettleAck, codec.SettleNext:
		done, err = at.Queue.AckWith(at.Tx, s.Lease, s.Result)
	case codec.SettleNack:
		done, err = at.Queue.Nack(at.Tx, s.Lease, fdbpq.Nack{Delay: s.Delay, Reason: s.Reason})
	case codec.SettleBack:
		done, err = at.Queue.GiveBack(at.Tx, s.Lease, s.Reason)
	case codec.SettleProgress:
		if s.Progress == "" {
			done, err = at.Queue.Extend(at.Tx, s.Lease, s.Leased)
		} else {
			done, err = at.Queue.Report(at.Tx, s.Lease, s.Leased, s.Progress)
		}
	case codec.SettleTerm:
		done, err = at.Queue.Terminate(at.Tx, s.Lease, s.Reason)
	case codec.SettleReturn:
		done, err = at.Queue.Return(at.Tx, s.Lease)
	}
	var lost *fdbpq.LostError
	if errors.As(err, &lost) || errors.Is(err, fdbpq.ErrNoDeadLetterQueue) || errors.Is(err, fdbpq.ErrNoRoom) {
		s.Failure = failure.Explain(err)
		return nil, nil
	}
	s.reserved = done.Reserved
	if s.renewed, s.kept = done.Lease, done.Result; done.Dropped {
		s.kept = fdbpq.KeptDropped
	}
	return done.Events, err
}

// Answer reports by an empty message that a settlement took effect, and what became of its result.
func (s *Settlement) Answer(re *request.Responder) {
	if s.Msg.Reply != "" {
		m := &nats.Msg{Subject: s.Msg.Reply}
		switch {
		case s.renewed != nil:
			m.Header = nats.Header{protocol.HeaderLeaseExpires: {codec.TimeText(s.renewed.Expires)}}
			if s.kept == fdbpq.KeptDropped {
				m.Header[protocol.HeaderNote] = []string{protocol.ResultDropped}
			}
		case s.Result != nil:
			m.Header = nats.Header{protocol.HeaderResult: {string(s.kept)}}
		}
		re.Publish(m)
	}
	re.Done(&s.Request, nil)
}

// count adds what a settlement has done to its item. The death of an item is an event.
func (s *Settlement) Tally(tally *request.Tally) {
	if s.Failure != nil {
		return
	}
	if s.Kind != codec.SettleProgress && !s.Unused() {
		tally.Charge(s.reserved, s.Lease.Spent)
	}
	switch s.Kind {
	case codec.SettleAck, codec.SettleNext:
		tally[request.Acknowledged]++
	case codec.SettleNack:
		tally[request.Returned]++
		tally[request.Nacked]++
	case codec.SettleBack:
		tally[request.Returned]++
		tally[request.GivenBack]++
	case codec.SettleReturn:
		tally[request.Returned]++
		tally[request.Unreceived]++
	case codec.SettleTerm:
		tally[request.Terminated]++
	}
}

// Large reports whether the settlement has a result that would take the room of pops in their transaction.
func (s *Settlement) Large() bool { return len(s.Result) > largeResult }

// largeResult is more than most results have.
const largeResult = 4 << 10

func (s *Settlement) SettlesLease() *fdbpq.Lease { return &s.Lease }

func (s *Settlement) Keeps() int { return len(s.Result) }

// MakesRoom reports whether the settlement is served where the store serves only what makes room: a longer lease makes none.
func (s *Settlement) MakesRoom(bool) bool { return s.Kind != codec.SettleProgress }

// EndsItems reports that no settlement is served where hardly any room is left: each writes a little, and there may be millions.
func (s *Settlement) EndsItems(bool) bool { return false }

// EndsLease reports whether a settlement that took effect has ended its lease for good.
func (s *Settlement) EndsLease() bool {
	return s.Failure == nil && s.Kind != codec.SettleProgress && s.Kind != codec.SettleReturn
}

// bundle is a bundle of settlements: many leases of a queue, settled by one message
// with one answer. Each of them goes its own way, as if it had come in a message of its own.
// When the last one has ended, the bundle is answered.
type bundle struct {
	message *Settlement
	sent    *codec.Settlements
	limit   *codec.Limit
	*request.Responder
	results []codec.Result
	left    atomic.Int64 // of them, and one while they begin
}

// read reads the settlements.
func (b *bundle) read() []*Settlement {
	all := make([]*Settlement, 0, b.sent.Len)
	for read := range b.sent.Read() {
		one := pool.Get()
		one.Prepare(one, b.message.Verb, read.On, noMessage)
		one.PassWithin(len(read.Result))
		one.Settlement, one.Failure = read.Settlement, read.Failure
		one.within, one.number = b, len(all)
		all = append(all, one)
	}
	b.sent, b.results = nil, make([]codec.Result, len(all))
	return all
}

// noMessage is the message of a settlement that came in a bundle.
var noMessage = new(nats.Msg)

// begin reads the settlements and starts them in their order.
func (b *bundle) begin(re *request.Responder, start func(*Settlement)) {
	b.Responder = re
	all := b.read()
	b.left.Store(int64(len(all)) + 1)
	for _, s := range all {
		if s.Failure != nil {
			b.Refuse(&s.Request, s.Failure)
		} else {
			start(s)
		}
	}
	b.done()
}

// ended keeps the result of a settlement.
func (b *bundle) ended(s *Settlement) {
	r := &b.results[s.number]
	switch r.Failure = s.Failure; {
	case s.Failure != nil:
	case s.renewed != nil:
		r.Expires, r.Kept = s.renewed.Expires, s.kept
	case s.Result != nil:
		r.Kept = s.kept
	}
	b.done()
}

// done answers the bundle when all its settlements have ended.
func (b *bundle) done() {
	if b.left.Add(-1) > 0 {
		return
	}
	m := b.message
	if m.Msg.Reply != "" {
		header := nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(b.results))}}
		b.Publish(&nats.Msg{Subject: m.Msg.Reply, Header: header, Data: b.limit.AppendResults(nil, b.results)})
	}
	b.Gate.Leave(&m.Request) // each settlement was counted as served, or as failed
	m.End()
}
