package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// lineage is one generation of a queue. What a queue has outside its generations is in 0.
type lineage struct {
	queue      string
	generation int64
}

type (
	queueKey   struct{ queue, key string }
	queueTimer struct{ queue, kind string }
)

// foundRow is a row that a Check has read.
type foundRow struct {
	kv.Pair
	space string
	lineage
	state *queueState // nil without a row of the queue's state
	rest  []byte      // of the key, behind the lineage
}

// past reports whether the row is of a past generation: CollectGarbage clears it later. A
// deleted queue has no rows in the generation that a later queue of its name begins with.
func (r *foundRow) past() (bool, error) {
	s := r.state
	switch {
	case s == nil:
		return false, fmt.Errorf("there is no queue %q", r.queue)
	case r.generation == s.generation && s.exists:
		return false, nil
	case r.generation >= s.generation:
		return false, fmt.Errorf("generation %d is in the future: the queue is in %d, exists: %t", r.generation, s.generation, s.exists)
	}
	return true, nil
}

// living returns an error when the queue of a row does not exist.
func (r *foundRow) living() error {
	if r.state == nil || !r.state.exists {
		return fmt.Errorf("there is no queue %q", r.queue)
	}
	return nil
}

// ofKey returns the key whose row it is. The row without a key has the key
// behind which a timer goes on: done.
func (r *foundRow) ofKey() (of queueKey, done bool, err error) {
	key := r.Value
	if done = len(r.rest) == 0; !done {
		key, _, err = tuple.ConsumeBytes(r.rest)
	}
	if err == nil {
		err = CheckKey(string(key))
	}
	return queueKey{r.queue, string(key)}, done || err != nil, err
}

// fairClass is the class of a row of the fair order.
func (r *foundRow) fairClass() (class int64, rest []byte, err error) {
	order, rest, err := tuple.ConsumeInt(r.rest)
	if err != nil {
		return 0, nil, err
	}
	if order != r.state.fairOrder || r.state.config.Fair == "" {
		return 0, nil, fmt.Errorf("the order %d is not that of the queue", order)
	}
	return tuple.ConsumeInt(rest)
}
