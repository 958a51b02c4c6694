package bridge

import (
	"errors"
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
func (l *pushes) refusedBundle(requests []desk.Work) (int, error) {
	pushed := l.pushed
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
func (l *pushes) openEach(p *push) (*eachPush, *failure.Failure) {
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

// spread returns the pushes of a batch, with the items in place of each bundle that goes item by item.
func (l *pushes) spread(requests []desk.Work) []desk.Work {
	if !slices.ContainsFunc(requests, func(w desk.Work) bool { return w.(*push).each != nil }) {
		return requests
	}
	for _, w := range requests {
		if p := w.(*push); p.each != nil {
			l.spreadBuffer = p.each.begin(l.spreadBuffer)
		} else {
			l.spreadBuffer = append(l.spreadBuffer, p)
		}
	}
	return l.spreadBuffer
}

// begin appends a push for each item, and refuses those that could not be read.
func (b *eachPush) begin(to []desk.Work) []desk.Work {
	bundle := &b.message.Request
	for i := range b.items {
		item := &b.items[i]
		one := pushPool.Get()
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
