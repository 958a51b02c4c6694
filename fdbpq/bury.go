package fdbpq

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Bury pushes a message that the queue cannot take to its dead-letter queue, with the reason. It keeps the priority, the
// headers and the payload. The result is that of a push to the dead-letter queue. Its Err says why there is
// no dead letter: the queue takes no items (see [Queue.Full]), there are too many bytes (ErrContent), or
// there is no dead-letter queue (ErrNoDeadLetterQueue). ErrNoQueue: there is no such queue.
func (q Queue) Bury(tx kv.Tx, item NewItem, reason string) (Pushed, error) {
	qtx, err := q.begin(tx)
	if err != nil {
		return Pushed{}, err
	}
	switch content := checkContent(item.Headers, item.Payload); {
	case qtx == nil:
		return Pushed{}, ErrNoQueue
	case q.full != nil:
		return Pushed{Err: q.full}, nil
	case content != nil:
		return Pushed{Err: content}, nil
	}
	dlq, err := deadLetters{qtx}.open()
	if err != nil {
		return Pushed{}, err
	}
	if dlq == nil {
		return Pushed{Err: errNoDeadLetters(q.name)}, nil
	}
	buried := layout.Item{Envelope: layout.Envelope{PushedAt: dlq.pushed}}
	priority := qtx.state.config.Priority
	if item.HasPriority {
		priority = item.Priority
	}
	seq := dlq.assign(&buried, priority)
	id := idOf(&buried)
	buried.Dead = layout.Death{Reason: cutReason(reason), Origin: ownName(q.name), OriginID: id.String(), At: time.Unix(0, dlq.pushed)}
	if err := dlq.lay(&buried, seq, item.Headers, item.Payload); err != nil {
		return Pushed{}, err
	}
	return Pushed{ID: id, Seq: seq, Priority: priority}, qtx.done()
}
