package fdbpq

import "fmt"

// remembered is the row of a message or pop id that a queue remembers for its dedup
// window.
type remembered interface {
	*rememberedPush | *rememberedPop

	forgetAt() int64
	forget(qtx *queueTx, id string)
}

// recall reads the row of an id, nil when the queue does not remember it. The
// transaction depends on the answer.
func recall[R remembered](qtx *queueTx, row []byte, id string, parse func([]byte) (R, error)) (R, error) {
	value, err := qtx.tx.Get(row)
	if err != nil || value == nil {
		return nil, err
	}
	r, err := parse(value)
	if err != nil {
		return nil, err
	}
	now, err := qtx.now()
	if err != nil {
		return nil, err
	}
	if r.forgetAt() <= now {
		r.forget(qtx, id) // the sweep is late
		return nil, nil
	}
	return r, nil
}

// room returns an error when the queue may not remember another id beside
// those stored before this transaction, and its own.
func (i ids) room(stored int64) error {
	if limit := i.state.config.DedupLimit; stored+i.tally.remembered >= limit {
		return fmt.Errorf("%w: the queue's dedup_limit is %d", ErrRemembered, limit)
	}
	return nil
}

// idDue forgets an id whose timer is due, unless it was remembered anew since.
func idDue[R remembered](qtx *queueTx, row []byte, t timer, parse func([]byte) (R, error)) error {
	value, err := qtx.tx.Get(row)
	if err != nil || value == nil {
		return err
	}
	r, err := parse(value)
	if err != nil || r.forgetAt() != t.due {
		return err
	}
	r.forget(qtx, t.id)
	return nil
}
