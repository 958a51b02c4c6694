package bridge

import (
	"errors"
	"strconv"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// readPush reads what a push asks for.
func (b *Bridge) readPush(r *request) *failure {
	r.item = incoming{NewItem: fdbpq.NewItem{
		Payload:     r.msg.Data,
		Priority:    r.subject.Priority,
		HasPriority: r.subject.HasPriority,
	}}
	if len(r.msg.Header) > 0 {
		if f := readPushHeaders(r); f != nil {
			return f
		}
	}
	return b.room.admit(r.msg.Data, r.item.Headers, 0, nil)
}

// runPushes pushes a batch in one transaction.
func (b *Bridge) runPushes(l *lane, batch []*request) {
	l.items = l.items[:0]
	for _, r := range batch {
		l.items = append(l.items, r.item.NewItem)
	}
	var pushed []fdbpq.Pushed
	started := time.Now()
	err := l.update(func(tx kv.Tx) (err error) {
		pushed, err = l.queue.Push(tx, l.items...)
		return err
	})
	clear(l.items)
	switch {
	case err == nil:
		b.stats.ran(kindPush, len(batch), started)
		added := 0
		for i := range pushed {
			if pushed[i].Err == nil && !pushed[i].Duplicate {
				added++
			}
		}
		b.stats.moved(l.queue.Name(), flowIn, added)
		for i, r := range batch {
			b.answerPush(l, r, &pushed[i])
		}
	case len(batch) > 1 && !isOutage(err) && !errors.Is(err, fdbpq.ErrNoQueue):
		// One of them is too large or too odd: the others need not suffer.
		for i := range batch {
			b.runPushes(l, batch[i:i+1])
		}
	default:
		for _, r := range batch {
			b.refuse(r, explain(err))
		}
	}
}

func (b *Bridge) answerPush(l *lane, r *request, p *fdbpq.Pushed) {
	b.events.items(p.Events)
	if p.Err != nil {
		b.refuse(r, explain(p.Err))
		return
	}
	if r.msg.Reply != "" {
		l.out = appendPubAck(l.out[:0], r.subject.Queue, p)
		if err := b.nc.Publish(r.msg.Reply, l.out); err != nil {
			b.options.Logger.Debug("answer lost", "subject", r.msg.Reply, "error", err)
		}
	}
	b.done(r, nil)
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
