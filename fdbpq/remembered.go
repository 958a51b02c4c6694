package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/internal/layout"

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
