package bridge

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/pqbridge/pqbridge/bridge/batch"
	"github.com/pqbridge/pqbridge/bridge/failure"
	"github.com/pqbridge/pqbridge/bridge/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// push adds an item.
type push struct {
	request.Request
	item fdbpq.NewItem
}

var pushPool pool[push]

func makePush(subjects.Verb) work { return pushPool.get() }

func (p *push) End() { pushPool.put(p) }

func (p *push) read(wr *wire) *failure.Failure {
	p.item = fdbpq.NewItem{
		Payload:     p.Msg.Data,
		Priority:    p.Subject.Priority,
		HasPriority: p.Subject.HasPriority,
	}
	if len(p.Msg.Header) > 0 {
		if f := p.readHeaders(wr); f != nil {
			return f
		}
	}
	return wr.answerLimit.admit(p.Msg.Data, p.item.Headers, p.item.Unique, 0, nil)
}

// pushes is the work of a lane of pushes.
type pushes struct {
	*lane
	items  []fdbpq.NewItem
	pushed []fdbpq.Pushed // what the last transaction did
}

// Work serves a batch of pushes.
func (l *pushes) Work(now batch.Batch[*push]) { batch.Run(now.Requests, l) }

// Common reports whether no single push caused an error.
func (l *pushes) Common(err error) bool {
	return l.lane.Common(err) || errors.Is(err, fdbpq.ErrNoQueue)
}

// Try pushes items in one transaction.
func (l *pushes) Try(requests []*push) (int, error) {
	queue, full := l.receiving()
	if full != nil && !slices.ContainsFunc(requests, func(r *push) bool { return r.item.MsgID != "" }) {
		return len(requests), full // a look into the store would take some of the rest of its log
	}
	for _, r := range requests {
		l.items = append(l.items, r.item)
	}
	started := time.Now()
	err := l.update(func(tx kv.Tx) (err error) {
		l.pushed, err = queue.Push(tx, l.items...)
		return err
	})
	clear(l.items)
	l.items = l.items[:0]
	if err == nil {
		l.Stats.Ran(request.KindPush, len(requests), started)
	}
	return len(requests), err
}

// Answer answers pushes.
func (l *pushes) Answer(requests []*push, err error) {
	if err != nil {
		request.RefuseAll(l.Responder, requests, err)
		return
	}
	added := 0
	for i := range l.pushed {
		if l.pushed[i].Err == nil && !l.pushed[i].Duplicate {
			added++
		}
	}
	l.Stats.Moved(l.queue.Name(), request.FlowIn, added)
	for i, r := range requests {
		if lease := r.item.HandOver; lease != nil && l.pushed[i].Err == nil && !l.pushed[i].Duplicate {
			l.Stats.Moved(lease.Queue, request.FlowSettled, 1)
		}
		l.answer(r, &l.pushed[i])
	}
	l.pushed = nil
}

func (l *pushes) answer(r *push, p *fdbpq.Pushed) {
	l.Events.Items(p.Events)
	if p.Err != nil {
		l.Refuse(&r.Request, failure.Explain(p.Err))
		return
	}
	if r.Msg.Reply != "" {
		l.out = appendPubAck(l.out[:0], r.Subject.Queue, p)
		if err := l.Conn.Publish(r.Msg.Reply, l.out); err != nil {
			l.Log.Debug("answer lost", "subject", r.Msg.Reply, "error", err)
		}
	}
	l.Done(&r.Request, nil)
}

// appendPubAck appends a protocol.PushResponse, without an allocation.
func appendPubAck(b []byte, queue string, p *fdbpq.Pushed) []byte {
	b = append(b, `{"type":"`+protocol.PushResponseType+`","stream":"`...)
	b = append(b, queue...) // of A-Z a-z 0-9 - _
	b = append(b, `","seq":`...)
	b = strconv.AppendInt(b, p.Seq, 10)
	if p.Duplicate {
		b = append(b, `,"duplicate":true`...)
	}
	b = append(b, `,"id":"`...)
	b = appendID(b, p.ID)
	b = append(b, `","priority":`...)
	b = strconv.AppendInt(b, p.Priority, 10)
	if p.Evicted {
		b = append(b, `,"evicted":true`...)
	}
	return append(b, '}')
}

func appendID(b []byte, id fdbpq.ID) []byte {
	b, _ = id.AppendText(b) // has no error to return
	return b
}
