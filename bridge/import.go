package bridge

import (
	"bytes"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/subjects"
)

// importing puts an exported item back to its place in a queue.
type importing struct {
	request.Request
	item fdbpq.Import
}

func makeImport(subjects.Verb) desk.Work { return new(importing) }

func (r *importing) Read(wr *codec.Wire) (f *failure.Failure) {
	r.item, f = wr.ReadImport(r.Subject.Queue, r.Msg, r.Arrived)
	return f
}

// imports is the work of a lane of imports.
type imports struct {
	*desk.Lane
	imported []fdbpq.Imported // results of the last transaction
	out      []byte           // of an answer
}

// Work serves a batch of imports.
func (l *imports) Work(now batch.Batch[*importing, batch.Alone]) { batch.Run(now.Requests, l) }

// Try puts items where they stood, in one transaction.
func (l *imports) Try(requests []*importing) (int, error) {
	items, content := make([]fdbpq.Import, len(requests)), 0
	for i, r := range requests {
		items[i] = r.item
		content += len(r.item.Headers) + len(r.item.Payload)
	}
	if why := l.Reserve(); why != nil {
		return 0, desk.StoreFull(why)
	}
	started := time.Now()
	queue, to, _ := l.Receiving(len(items), content)
	defer to.End()
	err := l.Update(batch.Job[kv.Tx]{
		Weight: len(requests),
		Bytes:  desk.SizeOf(requests),
		Do: func(tx kv.Tx) (err error) {
			l.imported, err = queue.Import(l.Metered(tx), items...)
			return err
		},
	})
	l.Weigh(len(requests))
	if err == nil {
		l.Stats.Ran(request.KindImport, len(requests), time.Since(started))
	}
	return len(requests), err
}

// Answer answers imports.
func (l *imports) Answer(requests []*importing, err error) {
	if err != nil {
		request.RefuseAll(l.Responder, requests, err)
		return
	}
	added := 0
	for i := range l.imported {
		if l.imported[i].Err == nil && l.imported[i].Found == nil {
			added++
		}
	}
	l.Stats.Moved(l.Queue.Name(), request.FlowIn, added)
	l.Stats.Queues.Count(l.Queue.Name(), &request.Tally{request.Imported: int64(added)})
	for i, r := range requests {
		l.answer(r, &l.imported[i])
	}
	l.imported = nil
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
