package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/kv"

// Inspection is the state of a queue at a glance.
type Inspection struct {
	Counts
	Config         Config
	MaxBytes       int64 // what Config and Options allow together; 0: no limit
	MaxResultBytes int64 // likewise, of results
	Paused         bool

	Keyed     bool // items of the queue have had keys
	FairReady bool // all keys stand in the order of Config.Fair, and pops go by it

	KeysSet   int64 // keys that have settings of their own
	KeysOwing int64 // keys that have not all tokens of their rate, as far as they are remembered

	Next *Item // that pop.min would return; nil: it would find no item

	queue *queueRows // see Explain
}

// Inspect returns the state of the queue, nil when there is no such queue.
func (q Queue) Inspect(r kv.Reader) (*Inspection, error) {
	qtx, err := q.view(r)
	if err != nil || qtx == nil {
		return nil, err
	}
	s := qtx.state
	i := &Inspection{
		Config: s.config, MaxBytes: q.store.maxBytes(&s.config), MaxResultBytes: q.store.maxResultBytes(&s.config),
		Paused: s.paused, Keyed: s.keyed, FairReady: s.fairBuilt, KeysSet: s.keysSet, queue: &qtx.queueRows,
	}
	if i.Counts, err = usageWithResults(&qtx.queueRows, r); err != nil {
		return nil, err
	}
	if i.KeysOwing, err = keysOwing(q.name, r); err != nil {
		return nil, err
	}
	found := collector{
		queueRows: &qtx.queueRows,
		sel:       Selection{End: Min, Band: &AllPriorities, Limit: 1, MaxBytes: 1},
	}
	if err := found.run(); err != nil {
		return nil, err
	}
	for _, f := range found.items {
		item, err := itemOf(&f)
		if err != nil {
			return nil, err
		}
		i.Next = &item
	}
	return i, nil
}
