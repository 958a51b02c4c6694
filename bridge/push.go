package bridge

import (
	"errors"
	"strconv"
	"strings"
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
		if f := p.readHeaders(); f != nil {
			return f
		}
	}
	return wr.answerLimit.admit(p.Msg.Data, p.item.Headers, 0, nil)
}

// readHeaders reads the headers of a push and gathers those that travel
// with the item.
func (r *push) readHeaders() *failure.Failure {
	var block []byte
	for key, values := range r.Msg.Header {
		travels, f := r.readHeader(key, values)
		if f != nil {
			return f
		}
		if travels {
			if block, f = appendHeader(block, key, values); f != nil {
				return f
			}
		}
	}
	r.item.Headers = block
	_, delayed := r.Msg.Header[protocol.HeaderDelay]
	if _, dated := r.Msg.Header[protocol.HeaderNotBefore]; delayed && dated {
		return failure.Newf(400, "%s together with %s: expected one of them", protocol.HeaderDelay, protocol.HeaderNotBefore)
	}
	return nil
}

// readHeader reads one header and reports whether it travels with the item.
func (r *push) readHeader(key string, values []string) (travels bool, f *failure.Failure) {
	switch {
	case strings.HasPrefix(key, protocol.HeaderPrefix):
		return false, r.readOurHeader(key, values)
	case key == protocol.HeaderMsgID:
		r.item.MsgID, f = readMsgID(values)
		return false, f
	}
	return travelsWithItem(key, values, r.Subject.Queue)
}

func (r *push) readOurHeader(key string, values []string) *failure.Failure {
	switch key {
	case protocol.HeaderID, protocol.HeaderDeliveries, protocol.HeaderFence, protocol.HeaderAck, protocol.HeaderLeaseExpires, protocol.HeaderNumPending,
		protocol.HeaderState, protocol.HeaderReason, protocol.HeaderDeadReason, protocol.HeaderOrigin, protocol.HeaderOriginID, protocol.HeaderExpires:
		return nil // an answer's: items are forwarded as they are
	case protocol.HeaderPriority, protocol.HeaderDelay, protocol.HeaderNotBefore, protocol.HeaderTTL:
	default:
		return failure.Newf(400, "header %s is none of a push: expected %s, %s, %s or %s",
			failure.Quote(key), protocol.HeaderPriority, protocol.HeaderDelay, protocol.HeaderNotBefore, protocol.HeaderTTL)
	}
	value, f := single(key, values)
	if f != nil {
		return f
	}
	switch key {
	case protocol.HeaderPriority:
		priority, err := subjects.ParsePriority(value)
		if err != nil {
			return failure.BadRequest(err)
		}
		if r.Subject.HasPriority && priority != r.Subject.Priority {
			return failure.Newf(400, "%s is %d, the subject says %d: expected the same or one of them", key, priority, r.Subject.Priority)
		}
		r.item.Priority, r.item.HasPriority = priority, true
	case protocol.HeaderDelay:
		r.item.Delay, f = readDuration(key, value, 0, fdbpq.MaxDelay)
	case protocol.HeaderTTL:
		r.item.TTL, f = readDuration(key, value, 1, fdbpq.MaxDelay)
	case protocol.HeaderNotBefore:
		var err error
		if r.item.NotBefore, err = time.Parse(time.RFC3339Nano, value); err != nil {
			return failure.Newf(400, "%s is %s: expected a time such as 2030-01-02T15:04:05Z", key, failure.Quote(value))
		}
		if time.Until(r.item.NotBefore) > fdbpq.MaxDelay {
			return failure.Newf(400, "%s is %s: expected a time within %s", key, failure.Quote(value), fdbpq.MaxDelay)
		}
	}
	return f
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
	return failure.IsOutage(err) || errors.Is(err, fdbpq.ErrNoQueue)
}

// Try pushes items in one transaction.
func (l *pushes) Try(requests []*push) (int, error) {
	for _, r := range requests {
		l.items = append(l.items, r.item)
	}
	started := time.Now()
	err := l.update(func(tx kv.Tx) (err error) {
		l.pushed, err = l.queue.Push(tx, l.items...)
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
