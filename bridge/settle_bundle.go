package bridge

import (
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/protocol"
)

// settlements are a bundle of settlements: many leases of a queue, settled by one message
// with one answer. Each of them goes its own way, as if it had come in a message of its own.
// When the last one has ended, the bundle is answered.
type settlements struct {
	message *settlement
	limit   *codec.Limit
	*request.Responder
	all     []*settlement
	results []codec.Result
	left    atomic.Int64 // of them, and one while they begin
}

// readBundle reads the settlements of a bundle.
func (s *settlement) readBundle(wr *codec.Wire, size []string) *failure.Failure {
	lines, f := wr.ReadSettlements(s.Subject.Queue, s.Msg, size)
	if f != nil {
		return f
	}
	s.Bundled = len(lines)
	s.bundle = &settlements{message: s, limit: &wr.Limit, all: make([]*settlement, len(lines)), results: make([]codec.Result, len(lines))}
	for i := range lines {
		one := settlementPool.get()
		one.Prepare(one, s.Verb, lines[i].On, noMessage)
		one.PassGate() // the gate counts the bundle
		one.Settlement, one.Failure = lines[i].Settlement, lines[i].Failure
		one.within, one.number = s.bundle, i
		s.bundle.all[i] = one
	}
	return nil
}

// noMessage is the message of a settlement that came in a bundle.
var noMessage = new(nats.Msg)

// begin sends the settlements on their way, in their order.
func (b *settlements) begin(ls *lanes) {
	b.Responder = ls.responder
	b.left.Store(int64(len(b.all)) + 1)
	for _, s := range b.all {
		if s.Failure != nil {
			ls.responder.Refuse(&s.Request, s.Failure)
		} else {
			ls.inOrder(s, &s.order)
		}
	}
	b.all = nil // they may be others by now
	b.done()
}

// ended keeps what became of a settlement.
func (b *settlements) ended(s *settlement) {
	r := &b.results[s.number]
	r.Failure = s.Failure
	if s.renewed != nil && s.Failure == nil {
		r.Expires = s.renewed.Expires
	}
	b.done()
}

// done answers the bundle when nothing of it is left.
func (b *settlements) done() {
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
