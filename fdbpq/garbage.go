package fdbpq

import (
	"context"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// garbageRows bounds how many rows one transaction of CollectGarbage reads.
const garbageRows = 500

// CollectGarbage clears some of what purges and deletions left behind, in one bounded
// transaction, and says whether there is more.
func (s *Store) CollectGarbage(ctx context.Context) (more bool, err error) {
	session := s.Session()
	defer session.Release()
	err = session.Update(ctx, func(tx kv.Tx) error {
		w := sweep{store: s, tx: tx}
		more, err = w.collect()
		return err
	})
	if err != nil {
		return false, fmt.Errorf("collect: %w", err)
	}
	return more, nil
}

func (w *sweep) collect() (more bool, err error) {
	prefix := row(spaceGarbage)
	begin, end := tuple.Range(prefix)
	heaps, err := w.tx.Range(begin, end, kv.RangeOptions{Limit: 1})
	if err != nil || len(heaps) == 0 {
		return false, err
	}
	if w.now, err = w.store.now(w.tx.Snapshot()); err != nil {
		return false, err
	}
	if until, err := w.claim(); err != nil || until != 0 {
		return false, err
	}
	name, rest, err := tuple.ConsumeString(heaps[0].Key[len(prefix):])
	if err != nil {
		return false, fmt.Errorf("damaged garbage row: %w", err)
	}
	generation, _, err := tuple.ConsumeInt(rest)
	if err != nil {
		return false, fmt.Errorf("damaged garbage row: %w", err)
	}
	q := w.store.Queue(name)
	c := q.change(w.tx, &state{generation: generation})
	done, err := c.discard()
	if err != nil {
		return false, err
	}
	if done {
		w.tx.Clear(heaps[0].Key)
		err = q.forget(w.tx, generation)
	}
	return err == nil, err
}

// forget clears the rows of a queue outside its generations when it was deleted
// and the last generation is cleared. Its name may be used again: what it
// begins with then is a generation that no queue had.
func (q Queue) forget(tx kv.Tx, cleared int64) error {
	s, err := q.readRow(tx)
	if err != nil || s == nil || s.exists || s.generation != cleared+1 {
		return err
	}
	for _, space := range []string{spaceState, spaceHigh, spaceArrivals} {
		tx.Clear(queueRow(space, q.name))
	}
	tx.Max(row(spaceGone), uint64(s.generation))
	return nil
}

// discard clears rows of a generation that is past and says whether it was the
// rest. Items that have timers are cleared one by one, with them; all others at
// a stroke.
func (c *change) discard() (done bool, err error) {
	n, err := c.counts(c.past, c.state.generation)
	if err != nil {
		return false, err
	}
	for _, space := range []string{spaceLeased, spaceDelayed, spaceReady} {
		if space == spaceReady && n.Expiring == 0 {
			break
		}
		prefix := c.prefix(space)
		begin, end := tuple.Range(prefix)
		pairs, err := c.past.Range(begin, end, kv.RangeOptions{Limit: garbageRows, MaxBytes: sweepBytes})
		if err != nil {
			return false, err
		}
		for _, pair := range pairs {
			c.discardItem(space, pair, len(prefix))
		}
		if len(pairs) > 0 {
			c.finish()
			return false, nil
		}
	}
	for _, space := range []string{spaceReady, spaceChunk, spaceForward, spaceCounter} {
		c.tx.ClearRange(tuple.Range(c.prefix(space)))
	}
	c.tx.Clear(c.prefix(spaceFence))
	return true, nil
}

// discardItem clears an item and its timers. Those of one that cannot be read,
// because it is damaged or another program's, go when they fall due.
func (c *change) discardItem(space string, pair kv.Pair, prefix int) {
	c.tx.Clear(pair.Key)
	p, err := parsePlace(pair.Key[prefix:])
	if err != nil {
		return
	}
	l, err := parseStanding(space, pair.Value, p)
	if err != nil {
		return
	}
	switch l.state {
	case StateLeased:
		c.clearTimer(l.due, timerLease, p)
		return // its TTL has no timer
	case StateDelayed:
		c.clearTimer(l.due, timerDelay, p)
	}
	c.clearExpiry(p, &l.envelope)
}
