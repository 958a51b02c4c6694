package pushes

import (
	"slices"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// eachPush is a bundle of which each item is pushed on its own, as if it had come in a message of its own. When the
// last one has ended, the bundle is answered.
type eachPush struct {
	message *push
	items   []fdbpq.NewItem
	results []codec.PushResult
	left    atomic.Int64 // items that have not ended
	limit   *codec.Limit
	*request.Responder
}

// openEach reads the items of a bundle.
func openEach(l *desk.Lane, p *push) (*eachPush, *failure.Failure) {
	items, refused, f := p.sent.Apart()
	if f != nil {
		return nil, f
	}
	b := &eachPush{message: p, items: items, results: make([]codec.PushResult, len(items)), limit: &l.Limit, Responder: l.Responder}
	for i, f := range refused {
		b.results[i].Failure = f
	}
	b.left.Store(int64(len(items)))
	return b, nil
}

// spread returns pushes with the items in place of each bundle that goes item by item, in a buffer if there is any.
func spread(requests, buffer []desk.Work) (all, used []desk.Work) {
	if !slices.ContainsFunc(requests, func(w desk.Work) bool { return w.(*push).each != nil }) {
		return requests, buffer
	}
	for _, w := range requests {
		if p := w.(*push); p.each != nil {
			buffer = p.each.begin(buffer)
		} else {
			buffer = append(buffer, p)
		}
	}
	return buffer, buffer
}

// begin appends a push for each item, and refuses those that could not be read.
func (b *eachPush) begin(to []desk.Work) []desk.Work {
	bundle := &b.message.Request
	for i := range b.items {
		item := &b.items[i]
		one := pool.Get()
		one.item, one.within, one.number = *item, b, i
		var trace nats.Header
		if b.Tracer != nil {
			trace = request.TraceOf(item.Headers)
		}
		one.PrepareWithin(bundle, one, len(item.Headers)+len(item.Payload), trace)
		if f := b.results[i].Failure; f != nil {
			b.Refuse(&one.Request, f)
		} else {
			to = append(to, one)
		}
	}
	return to
}

// ended keeps why an item was refused, and answers the bundle behind the last one.
func (b *eachPush) ended(p *push) {
	if p.Failure != nil {
		b.results[p.number].Failure = p.Failure
	}
	if b.left.Add(-1) > 0 {
		return
	}
	m := &b.message.Request
	if f := b.common(); f != nil {
		b.AnswerFailure(m, f)
	} else if m.Msg.Reply != "" {
		b.Publish(&nats.Msg{Subject: m.Msg.Reply, Data: b.limit.AppendPushResults(nil, m.Subject.Queue, b.results)})
	}
	b.DoneWithin(m)
}

// common returns the failure that all items of the bundle share, if it is about no item: trying again may help them all.
func (b *eachPush) common() *failure.Failure {
	first := b.results[0].Failure
	if first == nil || first.Code != protocol.CodeUnavailable && first.Code != protocol.CodeUnknownResult && first.Reason != protocol.ReasonStoreFull {
		return nil
	}
	for i := range b.results {
		if f := b.results[i].Failure; f == nil || f.Code != first.Code || f.Reason != first.Reason {
			return nil
		}
	}
	return first
}
