package settles

import (
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/protocol"
)

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
		r.Expires = s.renewed.Expires
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
