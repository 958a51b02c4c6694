package fdbpq

import (
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// MaxMsgID bounds the bytes of message and pop ids, which become parts of keys.
const MaxMsgID = 1024

// ErrMsgID: a message or pop id has more than MaxMsgID bytes.
var ErrMsgID = errors.New("message id too long")

// ErrRemembered: the queue remembers dedup_limit message and pop ids, and refuses
// new ids until a timer forgets some.
var ErrRemembered = errors.New("too many message ids remembered")

func checkMsgID(id string) error {
	if len(id) > MaxMsgID {
		return fmt.Errorf("%w: it has %d bytes, allowed are %d", ErrMsgID, len(id), MaxMsgID)
	}
	return nil
}

// rememberedPush is the row that keeps a message id for the queue's dedup window. It
// is outside the generations: a purge does not make a repeated message new.
type rememberedPush struct {
	due int64
	id  ID
}

func msgIDRow(queue, msgID string) []byte {
	return tuple.AppendString(layout.QueueRow(layout.SpaceMsgID, queue), msgID)
}

func (m *rememberedPush) pack() []byte {
	return m.id.place.Append(tuple.AppendInt(nil, m.due))
}

func parseRememberedPush(b []byte) (*rememberedPush, error) {
	due, rest, err := tuple.ConsumeInt(b)
	if err != nil {
		return nil, fmt.Errorf("damaged message id: %w", err)
	}
	p, err := layout.ParsePlace(rest)
	if err != nil {
		return nil, fmt.Errorf("damaged message id: %w", err)
	}
	return &rememberedPush{due: due, id: ID{p}}, nil
}

// ids remembers which item each message id has pushed.
type ids struct{ *queueRows }

// room returns an error when the queue may not remember another id beside
// the ids that were stored before this transaction, and its own.
func (i ids) room(id string, stored int64) error {
	if err := i.store.room.ids(id); err != nil {
		return err
	}
	if limit := i.state.config.DedupLimit; stored+i.tally.Remembered >= limit {
		return fmt.Errorf("%w: the queue's dedup_limit is %d", ErrRemembered, limit)
	}
	return nil
}

// first recognises a duplicate: it returns the result of the first push with this message
// id, nil for the first push. The transaction depends on the answer, so two
// pushes of one message cannot both be first.
func (i ids) first(msgID string) (*rememberedPush, error) {
	return recall(i.queueRows, msgIDRow(i.name, msgID), msgID, parseRememberedPush)
}

// remember keeps the message id for the queue's dedup window.
func (i ids) remember(msgID string, id ID) error {
	now, err := i.now()
	if err != nil {
		return err
	}
	m := rememberedPush{due: now + int64(i.state.config.DedupWindow), id: id}
	i.tx.Set(msgIDRow(i.name, msgID), m.pack())
	i.tx.Set(layout.IDTimerKey(m.due, layout.TimerMsgID, i.name, msgID), nil)
	i.store.alarm.expect(m.due)
	i.tally.Remembered++
	return nil
}

func (m *rememberedPush) forgetAt() int64 { return m.due }

func (m *rememberedPush) forget(q *queueRows, msgID string) {
	q.tx.Clear(msgIDRow(q.name, msgID))
	q.tx.Clear(layout.IDTimerKey(m.due, layout.TimerMsgID, q.name, msgID))
	q.tally.Remembered--
}

func (i ids) due(t layout.Timer) error {
	return idDue(i.queueRows, msgIDRow(i.name, t.ID), t, parseRememberedPush)
}

// RememberedBytes is what a message or pop id counts in a [Size]: its two rows have it.
const RememberedBytes = 256

// remembered is the row of a message or pop id that a queue remembers for its dedup
// window.
type remembered interface {
	forgetAt() int64
	forget(q *queueRows, id string)
}

// recall reads the row of an id, the zero R if the queue does not remember it. The
// transaction depends on the answer.
func recall[R remembered](q *queueRows, row []byte, id string, parse func([]byte) (R, error)) (none R, err error) {
	value, err := q.tx.Get(row)
	if err != nil || value == nil {
		return none, err
	}
	r, err := parse(value)
	if err != nil {
		return none, err
	}
	now, err := q.now()
	if err != nil {
		return none, err
	}
	if r.forgetAt() <= now {
		r.forget(q, id) // the sweep is late
		return none, nil
	}
	return r, nil
}

// idDue forgets an id whose timer is due, unless it was remembered anew since.
func idDue[R remembered](q *queueRows, row []byte, t layout.Timer, parse func([]byte) (R, error)) error {
	value, err := q.tx.Get(row)
	if err != nil || value == nil {
		return err
	}
	r, err := parse(value)
	if err != nil || r.forgetAt() != t.Due {
		return err
	}
	r.forget(q, t.ID)
	return nil
}
