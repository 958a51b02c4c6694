package bridge

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// importing puts an exported item back to its place in a queue.
type importing struct {
	request.Request
	item fdbpq.Import
}

func makeImport(subjects.Verb) work { return new(importing) }

func (r *importing) read(wr *wire) *failure.Failure {
	i := &r.item
	i.Payload = r.Msg.Data
	hasID, hasPriority := false, false
	for key, values := range r.Msg.Header {
		switch {
		case key == protocol.HeaderMsgID:
			return failure.Newf(400, "%s on an import: its %s says which item it is, and it is put there once", key, protocol.HeaderID)
		case key != protocol.HeaderTimeStamp && !strings.HasPrefix(key, protocol.HeaderPrefix):
			travels, f := travelsWithItem(key, values, r.Subject.Queue)
			if travels {
				i.Headers, f = appendHeader(i.Headers, key, values)
			}
			if f != nil {
				return f
			}
			continue
		}
		value, f := single(key, values)
		if f == nil {
			f = readImportHeader(i, key, value)
		}
		if f != nil {
			return f
		}
		hasID, hasPriority = hasID || key == protocol.HeaderID, hasPriority || key == protocol.HeaderPriority
	}
	if !hasID {
		return failure.Newf(400, "an import without %s: expected the id that the item had", protocol.HeaderID)
	}
	if !hasPriority {
		i.Priority = i.ID.Priority()
	}
	if i.Pushed.IsZero() {
		i.Pushed = r.Arrived
	}
	return wr.answerLimit.admit(i.Payload, i.Headers, i.Key, i.Unique, len(r.Msg.Header.Get(protocol.HeaderID)), i.Dead)
}

func readImportHeader(i *fdbpq.Import, key, value string) (f *failure.Failure) {
	at := func(t *time.Time) *failure.Failure {
		var err error
		if *t, err = time.Parse(time.RFC3339Nano, value); err != nil {
			return failure.Newf(400, "%s is %s: expected a time such as 2030-01-02T15:04:05Z", key, failure.Quote(value))
		}
		return nil
	}
	number := func(n *int64) (f *failure.Failure) {
		*n, f = parseInteger(key, value, 0, maxNumber)
		return f
	}
	switch key {
	case protocol.HeaderID:
		var err error
		if i.ID, err = fdbpq.ParseID(value); err != nil {
			f = failure.Newf(400, "%s is %s: %s", key, failure.Quote(value), err)
		}
	case protocol.HeaderPriority:
		var err error
		if i.Priority, err = subjects.ParsePriority(value); err != nil {
			f = failure.BadRequest(err)
		}
	case protocol.HeaderTimeStamp:
		f = at(&i.Pushed)
	case protocol.HeaderNotBefore:
		f = at(&i.NotBefore)
	case protocol.HeaderExpires:
		f = at(&i.Expires)
	case protocol.HeaderDeliveries:
		f = number(&i.Deliveries)
	case protocol.HeaderFence:
		f = number(&i.Fence)
	case protocol.HeaderKey:
		i.Key, f = readKey(key, value)
	case protocol.HeaderKeyFence:
		f = number(&i.KeyFence)
	case protocol.HeaderUnique:
		i.Unique, f = readUnique(key, value)
	case protocol.HeaderUniqueUntil:
		i.UniqueUntilLeased, f = readUniqueUntil(key, value)
	case protocol.HeaderDeadAt:
		f = at(&death(i).At)
	case protocol.HeaderDeadNumber:
		f = number(&death(i).Deliveries)
	case protocol.HeaderDeadReason, protocol.HeaderOrigin, protocol.HeaderOriginID:
		dead := death(i)
		if len(value) > maxDeadText {
			return failure.Newf(400, "%s has %d bytes: allowed are %d", key, len(value), maxDeadText)
		}
		*map[string]*string{protocol.HeaderDeadReason: &dead.Reason, protocol.HeaderOrigin: &dead.Origin, protocol.HeaderOriginID: &dead.OriginID}[key] = value
	case protocol.HeaderNumPending, protocol.HeaderState, protocol.HeaderWaitsFor, protocol.HeaderKeyAhead, protocol.HeaderAck, protocol.HeaderLeaseExpires:
		// These headers describe the answer and the lease, not the item.
	default:
		f = failure.Newf(400, "header %s is none of an import: expected %s, or what else comes with an item", failure.Quote(key), protocol.HeaderID)
	}
	return f
}

func death(i *fdbpq.Import) *fdbpq.DeadLetter {
	if i.Dead == nil {
		i.Dead = &fdbpq.DeadLetter{}
	}
	return i.Dead
}

const (
	maxNumber   = 1 << 62 // of deliveries and fences: the numbers grow further
	maxDeadText = 512     // bytes of a reason, a queue's name, an id
)

// imports is the work of a lane of imports.
type imports struct {
	*lane
	imported []fdbpq.Imported // what the last transaction did
}

// Work serves a batch of imports.
func (l *imports) Work(now batch.Batch[*importing, batch.Alone]) { batch.Run(now.Requests, l) }

// Try puts items where they stood, in one transaction.
func (l *imports) Try(requests []*importing) (int, error) {
	items := make([]fdbpq.Import, len(requests))
	for i, r := range requests {
		items[i] = r.item
	}
	started := time.Now()
	bytes := sizeOf(requests)
	queue, _ := l.receiving(len(items), bytes)
	err := l.update(batch.Job[kv.Tx]{
		Weight: len(requests),
		Bytes:  bytes,
		Do: func(tx kv.Tx) (err error) {
			l.imported, err = queue.Import(tx, items...)
			return err
		},
	})
	if err == nil {
		l.Stats.Ran(request.KindImport, len(requests), started)
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
	l.Stats.Moved(l.queue.Name(), request.FlowIn, added)
	l.Stats.Queues.Count(l.queue.Name(), &request.Tally{request.Imported: int64(added)})
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
	if err == nil && done.Found != nil && !same(done.Found, &r.item) {
		err = fdbpq.ErrOccupied
	}
	if err != nil {
		l.Refuse(&r.Request, failure.Explain(err))
		return
	}
	p := fdbpq.Pushed{ID: r.item.ID, Seq: done.Seq, Priority: r.item.Priority, Duplicate: done.Found != nil}
	if p.Duplicate {
		p.Priority = done.Found.Priority
	}
	l.out = appendPubAck(l.out[:0], r.Subject.Queue, &p)
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
