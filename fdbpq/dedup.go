package fdbpq

import (
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// ErrRemembered: the queue remembers dedup_limit message ids and takes in no
// item with a further one until some are forgotten.
var ErrRemembered = errors.New("too many message ids remembered")

// MaxMsgID bounds the bytes of message and pop ids, which become parts of keys.
const MaxMsgID = 1024

// ErrMsgID: a message or pop id has more than MaxMsgID bytes.
var ErrMsgID = errors.New("message id too long")

func checkMsgID(id string) error {
	if len(id) > MaxMsgID {
		return fmt.Errorf("%w: it has %d bytes, allowed are %d", ErrMsgID, len(id), MaxMsgID)
	}
	return nil
}

// remembered is the row that keeps a message id for the queue's window. It
// stands outside the generations: a purge does not make old messages new.
type remembered struct {
	due int64
	id  ID
}

func dedupRow(queue, msgID string) []byte {
	return tuple.AppendString(queueRow(spaceDedup, queue), msgID)
}

func (m *remembered) pack() []byte {
	return m.id.place.append(tuple.AppendInt(nil, m.due))
}

func parseRemembered(b []byte) (*remembered, error) {
	due, rest, err := tuple.ConsumeInt(b)
	if err != nil {
		return nil, fmt.Errorf("damaged message id: %w", err)
	}
	p, err := parsePlace(rest)
	if err != nil {
		return nil, fmt.Errorf("damaged message id: %w", err)
	}
	return &remembered{due: due, id: ID{p}}, nil
}

// recall returns the id that the first push with this message id got, nil when
// this is the first. The transaction depends on the answer, so two pushes of
// the same message cannot both be the first.
func (c *change) recall(msgID string) (*remembered, error) {
	row, err := c.tx.Get(dedupRow(c.name, msgID))
	if err != nil || row == nil {
		return nil, err
	}
	m, err := parseRemembered(row)
	if err != nil {
		return nil, err
	}
	now, err := c.now()
	if err != nil {
		return nil, err
	}
	if m.due <= now {
		c.forget(msgID, m) // the sweep is late
		return nil, nil
	}
	return m, nil
}

// remember keeps the message id for the queue's window.
func (c *change) remember(msgID string, id ID) error {
	now, err := c.now()
	if err != nil {
		return err
	}
	m := remembered{due: now + int64(c.state.config.DedupWindow), id: id}
	c.tx.Set(dedupRow(c.name, msgID), m.pack())
	c.tx.Set(idTimerKey(m.due, timerDedup, c.name, msgID), nil)
	c.store.due.expect(m.due)
	c.tally.remembered++
	return nil
}

// forgetAll forgets all message and pop ids, however many. Their timers find
// nothing when they fall due.
func (q Queue) forgetAll(tx kv.Tx) {
	for _, space := range []string{spaceDedup, spaceReplay, spaceReplayed} {
		tx.ClearRange(tuple.Range(queueRow(space, q.name)))
	}
	tx.Clear(q.counterKey(0, counterRemembered))
}

func (c *change) forget(msgID string, m *remembered) {
	c.tx.Clear(dedupRow(c.name, msgID))
	c.tx.Clear(idTimerKey(m.due, timerDedup, c.name, msgID))
	c.tally.remembered--
}
