package pushes

import (
	"bytes"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/subjects"
)

// importing puts an exported item back to its place in a queue.
type importing struct {
	request.Request
	item fdbpq.Import
}

// Import returns an empty import.
func Import(subjects.Verb) desk.Work { return new(importing) }

func (r *importing) Read(wr *codec.Wire) (f *failure.Failure) {
	r.item, f = wr.ReadImport(r.Subject.Queue, r.Msg, r.Arrived)
	return f
}

// imports is the part of a queue's imports in a turn.
type imports struct {
	turns.Simple[desk.Work, kv.Tx]
	*desk.Desk
	out []byte // of an answer

	// The present transaction.
	items     []fdbpq.Import
	queue     fdbpq.Queue
	admission *tenants.Admission
	imported  []fdbpq.Imported // results of its last run
}

// NewImports returns the part of imports in a turn.
func NewImports(l *desk.Desk) desk.Part { return &imports{Desk: l} }

// Open turns to the imports of a queue.
func (l *imports) Open(s turns.Start, requests []desk.Work) {
	l.Begin(s.Queue)
	l.Keep(requests)
}

// Plan prepares a transaction that puts items where they stood.
func (l *imports) Plan(requests []desk.Work) (int, error) {
	if why := l.Reserve(); why != nil {
		return 0, desk.StoreFull(why)
	}
	takes := 0
	for _, w := range requests {
		item := &w.(*importing).item
		l.items = append(l.items, *item)
		takes += fdbpq.ImportBytes(item)
	}
	l.queue, l.admission, _ = l.Receiving(len(l.items), takes)
	return 0, nil
}

func (l *imports) Ahead(kv.Tx) {}

// Do imports items.
func (l *imports) Do(tx kv.Tx, _ *turns.Limits) (at int, err error) {
	l.imported, err = l.queue.Import(l.Metered(tx), l.items...)
	return len(l.items), err
}

// Ran is the number of items.
func (l *imports) Ran() (kind, n int) { return int(request.KindImport), len(l.items) }

// Close charges the rows of a transaction.
func (l *imports) Close(result error) {
	l.Weigh(len(l.items))
	desk.EndAdmission(l.admission, result)
	clear(l.items)
	l.items, l.queue, l.admission = l.items[:0], fdbpq.Queue{}, nil
}

// Answer answers imports.
func (l *imports) Answer(requests []desk.Work, err error) (served int, more bool) {
	if err != nil {
		request.RefuseAll(l.Responder, requests, err)
		return len(requests), false
	}
	added := 0
	for i := range l.imported {
		if l.imported[i].Err == nil && l.imported[i].Found == nil {
			added++
		}
	}
	l.Stats.Moved(l.Queue.Name(), request.FlowIn, added)
	l.Stats.Queues.Count(l.Queue.Name(), &request.Tally{request.Imported: int64(added)})
	for i, w := range requests {
		l.answer(w.(*importing), &l.imported[i])
	}
	l.imported = nil
	return len(requests), false
}

// answer answers an import like a push. An import of an item that is in its place
// already succeeds.
func (l *imports) answer(r *importing, done *fdbpq.Imported) {
	l.Events.Items(done.Events)
	err := done.Err
	if known := r.item.ID != (fdbpq.ID{}); err == nil && done.Found != nil && known && !same(done.Found, &r.item) {
		err = fdbpq.ErrOccupied
	}
	if err != nil {
		l.Refuse(&r.Request, failure.Explain(err))
		return
	}
	p := fdbpq.Pushed{ID: done.ID, Seq: done.Seq, Priority: r.item.Priority, Duplicate: done.Found != nil}
	if p.Duplicate {
		p.Priority = done.Found.Priority
	}
	l.out = codec.AppendPubAck(l.out[:0], r.Subject.Queue, &p)
	l.Publish(&nats.Msg{Subject: r.Msg.Reply, Data: l.out})
	l.Done(&r.Request, nil)
}

// same compares an item with what was imported. The headers of one message have
// no order among each other.
func same(found *fdbpq.StoredItem, item *fdbpq.Import) bool {
	lines := func(block []byte) [][]byte {
		all := bytes.SplitAfter(block, []byte("\r\n"))
		slices.SortFunc(all, bytes.Compare)
		return all
	}
	return bytes.Equal(found.Payload, item.Payload) &&
		(bytes.Equal(found.Headers, item.Headers) || slices.EqualFunc(lines(found.Headers), lines(item.Headers), bytes.Equal))
}
