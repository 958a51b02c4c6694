package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// keysAtOnce bounds how many keys one transaction looks at after a change of key_limit
// or key_order. Timers look at the others.
const keysAtOnce = 64

// reindex has pops look at all keys with ready items behind one: another limit may let
// them go, and another order has another first item.
func (qtx *queueTx) reindex(behind string) error {
	last, done, err := qtx.findKeys(behind)
	if err != nil || done {
		return err
	}
	return qtx.timerAtOnce(timerKeys, last)
}

// timerAtOnce sets a timer that is due, for the rest of a long work.
func (qtx *queueTx) timerAtOnce(kind, id string) error {
	now, err := qtx.now()
	if err != nil {
		return err
	}
	if qtx.goesOn = qtx.sweeps; !qtx.sweeps {
		qtx.store.alarm.expect(now)
	}
	qtx.tx.Set(idTimerKey(now, kind, qtx.name, id), nil)
	return nil
}

// findKeys has pops look at the next keys with ready items behind one, and returns the last
// of them, or that there are no others.
func (qtx *queueTx) findKeys(behind string) (last string, done bool, err error) {
	space := generationPrefix(spaceKeyReady, qtx.name, qtx.state.generation)
	begin, end := tuple.Range(space)
	if behind != "" {
		begin = tuple.PrefixEnd(qtx.keyRow(spaceKeyReady, behind))
	}
	for range keysAtOnce {
		rows, err := qtx.snapshot.Range(begin, end, kv.RangeOptions{Limit: 1})
		if err != nil || len(rows) == 0 {
			return "", err == nil, err
		}
		key, _, err := tuple.ConsumeBytes(rows[0].Key[len(space):])
		if err != nil {
			return "", false, fmt.Errorf("damaged row of a key: %w", err)
		}
		behind = string(key)
		first, ok, err := qtx.firstOfKey(qtx.snapshot, behind)
		if err != nil {
			return "", false, err
		}
		if ok {
			qtx.findKey(first, behind)
			qtx.arrived = true
		}
		begin = tuple.PrefixEnd(qtx.keyRow(spaceKeyReady, behind))
	}
	return behind, false, nil
}

// keysDue looks at further keys. After a purge these are others, which does no harm.
func (qtx *queueTx) keysDue(t timer) error {
	if !qtx.state.exists {
		return nil
	}
	return qtx.reindex(t.id)
}
