// Package pushes has the requests that add items to a queue: pushes, their bundles, and imports of exported items.
//
// What it guarantees: a push is acknowledged when it is durable. The pushes that one connection sends to one queue without waiting
// for their answers take effect in the order in which they arrive. A bundle adds all of its items or none, or, with PQ-Each, each of
// them as if it had come alone. A push that may be repeated, or replace another item, is tried although the store has no room for
// new items. An import of an item that the queue has already, with this id, changes nothing, and succeeds.
package pushes

import (
	"errors"
	"slices"
	"strings"
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

// push adds an item, or the items of a bundle.
type push struct {
	request.Request
	item   fdbpq.NewItem
	sent   *codec.Bundle   // nil: it is no bundle
	bundle []fdbpq.NewItem // its items, once the part has read them

	each   *eachPush // the bundle, if its items are pushed each on its own
	within *eachPush // the bundle that it is part of; nil: it has come in a message of its own
	number int       // its index in that bundle
}

var pool desk.Pool[push]

// Push returns an empty push.
func Push(subjects.Verb) desk.Work { return pool.Get() }

func (p *push) End() {
	if p.within != nil {
		p.within.ended(p)
	}
	pool.Put(p)
}

func (p *push) Read(wr *codec.Wire) (f *failure.Failure) {
	if size, is := p.Msg.Header[protocol.HeaderBundle]; is {
		if p.sent, f = wr.OpenBundle(&p.Subject, p.Msg, size); f == nil {
			p.Bundled = p.sent.Len
		}
		return f
	}
	p.item, f = wr.ReadPush(&p.Subject, p.Msg)
	return f
}

// source returns the inbox of the push's client: the subject of the answer without its last token. Pushes that one
// connection sends without waiting keep their order, and a client has its answers sent to one inbox. A push without an
// answer has no source.
func (p *push) source() string {
	reply := p.Msg.Reply
	if dot := strings.LastIndexByte(reply, '.'); dot >= 0 {
		return reply[:dot]
	}
	return reply
}

// A push may be a bundle: many items in one message, all of which are added, or none. The
// items of a bundle that is refused must leave nothing behind, so the bundle ends its
// transaction, and the other pushes run again without it. A bundle whose items are pushed
// each on its own ([eachPush]) is many pushes.

// bundleError is why a bundle is refused, for the reason of one of its items. The other
// requests of its transaction have nothing to do with it.
type bundleError struct{ of *failure.Failure }

func (e *bundleError) Error() string { return e.of.Text }
func (e *bundleError) Unwrap() error { return e.of }

// refusedBundle returns the index of the first push that is a bundle with a refused item, and the reason.
func refusedBundle(requests []desk.Work, pushed []fdbpq.Pushed) (int, error) {
	for i, w := range requests {
		r := w.(*push)
		n := r.Count()
		if r.bundle != nil {
			for k := range pushed[:n] {
				if err := pushed[k].Err; err != nil {
					return i, &bundleError{failure.Explain(err).OfItem(k)}
				}
			}
		}
		pushed = pushed[n:]
	}
	return len(requests), nil
}

// ofBundle reports whether an error concerns one bundle and no other push.
func ofBundle(err error) bool {
	var refused *bundleError
	return errors.As(err, &refused)
}

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
func openEach(l *desk.Desk, p *push) (*eachPush, *failure.Failure) {
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
