package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Inspection is the state of a queue at a glance.
type Inspection struct {
	Counts
	Config   Config
	MaxBytes int64 // what Config and Options allow together; 0: no limit
	Paused   bool

	Keyed     bool // items of the queue have had keys
	FairReady bool // all keys stand in the order of Config.Fair, and pops go by it

	KeysSet   int64 // keys that have settings of their own
	KeysOwing int64 // keys that have not all tokens of their rate, as far as they are remembered

	Next *Item // what pop.min would return; nil for nothing
}

// Inspect returns the state of the queue, nil when there is no such queue.
func (q Queue) Inspect(r kv.Reader) (*Inspection, error) {
	s, err := q.readState(r)
	if err != nil || s == nil {
		return nil, err
	}
	i := &Inspection{Config: s.config, MaxBytes: q.store.maxBytes(&s.config), Paused: s.paused, Keyed: s.keyed, FairReady: s.fairBuilt, KeysSet: s.keysSet}
	if i.Counts, err = q.counts(r, s.generation); err != nil {
		return nil, err
	}
	if i.KeysOwing, err = q.keysOwing(r); err != nil {
		return nil, err
	}
	found := collector{
		queueTx: q.newQueueView(r, s),
		sel:     Selection{End: Min, Band: &AllPriorities, Limit: 1, MaxBytes: 1},
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
