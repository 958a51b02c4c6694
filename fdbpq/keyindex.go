package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// keysAtOnce bounds how many keys one transaction looks at after a change of key_limit
// or key_order. Timers look at the others.
const keysAtOnce = 64

// rebuild has pops look at all keys with ready items behind one: another limit may let
// them go, and another order has another first item.
func (x keyIndex) rebuild(behind string) error {
	last, done, err := x.findNext(behind)
	if err != nil || done {
		return err
	}
	return timers{x.queueTx}.atOnce(timerKeys, last)
}

// atOnce sets a timer that is due, for the rest of a long work.
func (ts timers) atOnce(kind, id string) error {
	now, err := ts.now()
	if err != nil {
		return err
	}
	if ts.goesOn = ts.sweeps; !ts.sweeps {
		ts.store.alarm.expect(now)
	}
	ts.tx.Set(idTimerKey(now, kind, ts.name, id), nil)
	return nil
}

// findNext has pops look at the next keys with ready items behind one, and returns the last
// of them, or that there are no others.
func (x keyIndex) findNext(behind string) (last string, done bool, err error) {
	space := generationPrefix(spaceKeyReady, x.name, x.state.generation)
	begin, end := tuple.Range(space)
	if behind != "" {
		begin = tuple.PrefixEnd(x.row(spaceKeyReady, behind))
	}
	for range keysAtOnce {
		rows, err := x.snapshot.Range(begin, end, kv.RangeOptions{Limit: 1})
		if err != nil || len(rows) == 0 {
			return "", err == nil, err
		}
		key, _, err := tuple.ConsumeBytes(rows[0].Key[len(space):])
		if err != nil {
			return "", false, fmt.Errorf("damaged row of a key: %w", err)
		}
		behind = string(key)
		first, ok, err := x.first(x.snapshot, behind)
		if err != nil {
			return "", false, err
		}
		if ok {
			x.find(first, behind)
			x.arrived = true
		}
		begin = tuple.PrefixEnd(x.row(spaceKeyReady, behind))
	}
	return behind, false, nil
}

// due looks at further keys. After a purge these are others, which does no harm.
func (x keyIndex) due(t timer) error {
	if !x.state.exists {
		return nil
	}
	return x.rebuild(t.id)
}
