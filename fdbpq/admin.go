package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// Configure changes the fields of the queue's configuration that the JSON
// object names, and makes the queue if need be.
func (q Queue) Configure(tx kv.Tx, object []byte) (Config, error) {
	s, exists, err := q.open(tx)
	if err != nil {
		return Config{}, err
	}
	changed := *s
	if changed.config, err = s.config.Merge(object); err != nil {
		return Config{}, err
	}
	if name := changed.config.DeadLetter; name != "" && name != s.config.DeadLetter {
		if err := q.checkDeadLetter(tx, name); err != nil {
			return Config{}, err
		}
	}
	write := q.write
	if !exists {
		write = q.foundWithGrave
	}
	return changed.config, write(tx, &changed)
}

// Pause makes takes and peeks find nothing until Resume. Pushes go on. Without
// such a queue it returns ErrNoQueue, as do Resume, Purge and Delete.
func (q Queue) Pause(tx kv.Tx) error { return q.setPaused(tx, true) }

// Resume ends a pause.
func (q Queue) Resume(tx kv.Tx) error { return q.setPaused(tx, false) }

func (q Queue) setPaused(tx kv.Tx, paused bool) error {
	s, err := q.read(tx)
	if err != nil {
		return err
	}
	if s == nil {
		return ErrNoQueue
	}
	changed := *s
	changed.paused = paused
	if !paused {
		tx.Add(queueRow(spaceArrivals, q.name), 1) // for those who wait
	}
	return q.write(tx, &changed)
}

// Purge removes all items, leased and delayed ones included, and returns how
// many. It takes the same short time whatever their number: the queue goes on
// in a new generation of its key space, and Maintain clears the old one.
// Message ids stay remembered.
func (q Queue) Purge(tx kv.Tx) (int64, error) {
	return q.supersede(tx, func(*state) {})
}

// Delete removes the queue with its items, its configuration, and the message
// ids that it remembers. A queue of this name that is made later has nothing of it.
func (q Queue) Delete(tx kv.Tx) (int64, error) {
	n, err := q.supersede(tx, func(s *state) {
		*s = state{generation: s.generation, config: defaultConfig()}
	})
	if err == nil {
		q.forgetAll(tx)
	}
	return n, err
}

func (q Queue) supersede(tx kv.Tx, alter func(*state)) (int64, error) {
	s, err := q.read(tx)
	if err != nil {
		return 0, err
	}
	if s == nil {
		return 0, ErrNoQueue
	}
	n, err := q.counts(tx.Snapshot(), s.generation)
	if err != nil {
		return 0, err
	}
	next := *s
	next.generation++
	alter(&next)
	tx.Set(tuple.AppendInt(queueRow(spaceGarbage, q.name), s.generation), nil)
	return n.Length(), q.write(tx, &next)
}

// Inspection is what there is to know about a queue.
type Inspection struct {
	Counts
	Config Config
	Paused bool
	Next   *Item // what pop.min would take; nil when there is nothing
}

// Inspect returns what there is to know about the queue, nil when there is no
// such queue.
func (q Queue) Inspect(r kv.Reader) (*Inspection, error) {
	s, err := q.read(r)
	if err != nil || s == nil {
		return nil, err
	}
	i := &Inspection{Config: s.config, Paused: s.paused}
	if i.Counts, err = q.counts(r, s.generation); err != nil {
		return nil, err
	}
	found := collector{
		change: q.look(r, s),
		sel:    Selection{End: Min, Band: &AllPriorities, Limit: 1, MaxBytes: 1},
	}
	if err := found.run(); err != nil {
		return nil, err
	}
	for _, f := range found.items {
		item, err := f.item()
		if err != nil {
			return nil, err
		}
		i.Next = &item
	}
	return i, nil
}

// Arrivals watches for something to become takeable in the queue. Set in the
// very transaction that found nothing, it misses nothing.
func (q Queue) Arrivals(tx kv.Tx) *kv.Watch {
	return tx.Watch(queueRow(spaceArrivals, q.name))
}
