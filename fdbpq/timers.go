package fdbpq

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// timers sets and clears the timers of a queue.
type timers struct{ *queueRows }

func (ts timers) start(due int64, kind string, p layout.Place) {
	ts.store.alarm.expect(due)
	ts.tx.Set(ts.timerKey(due, kind, p), nil)
}

func (ts timers) stop(due int64, kind string, p layout.Place) {
	ts.tx.Clear(ts.timerKey(due, kind, p))
}

// Rows that keys have outside generations are cleared when they say nothing any more: full
// buckets of tokens, and fences that time has passed. A timer of the queue looks at a
// bounded number of them. If enough of these went, it goes on at once, and otherwise some
// time later, however many rows there are. Where it goes on is in the row that the space
// has without a key.

// forgetAtOnce bounds at how many rows one timer looks.
const forgetAtOnce = 256

// forgetEvery is how often a timer looks at such rows.
func forgetEvery(kind string) int64 {
	if kind == layout.TimerFences {
		return int64(10 * time.Second) // nearly all go at once
	}
	return int64(time.Minute)
}

// forgetLater plans that rows of keys are looked at. All of a queue's transactions within
// a period write the same timer.
func (ts timers) forgetLater(kind string) error {
	now, err := ts.now()
	if err != nil {
		return err
	}
	due := (now/forgetEvery(kind) + 2) * forgetEvery(kind)
	ts.store.alarm.expect(due)
	ts.tx.Set(layout.IDTimerKey(due, kind, ts.name, ""), nil)
	return nil
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
	ts.tx.Set(layout.IDTimerKey(now, kind, ts.name, id), nil)
	return nil
}

// forget clears rows of keys in a space that say nothing any more, and reports whether
// a timer looks at others later.
func (ts timers) forget(space, kind string, gone func(key string, value []byte) (bool, error)) (later bool, err error) {
	cursor := layout.QueueRow(space, ts.name)
	behind, err := ts.tx.Get(cursor)
	if err != nil {
		return false, err
	}
	begin, end := tuple.Range(cursor)
	if behind != nil {
		begin = tuple.PrefixEnd(tuple.AppendBytes(layout.QueueRow(space, ts.name), behind))
	}
	rows, err := ts.snapshot.Range(begin, end, kv.RangeOptions{Limit: forgetAtOnce})
	if err != nil {
		return false, err
	}
	var last []byte
	cleared := 0
	for _, row := range rows {
		if last, _, err = tuple.ConsumeBytes(row.Key[len(cursor):]); err != nil {
			return false, fmt.Errorf("damaged row of a key: %w", err)
		}
		forget, err := gone(string(last), row.Value)
		if err != nil {
			return false, err
		}
		if forget {
			ts.tx.Conflict(row.Key) // a delivery may write it at the same time
			ts.tx.Clear(row.Key)
			cleared++
		}
	}
	switch {
	case len(rows) == forgetAtOnce:
		ts.tx.Set(cursor, last)
		if 4*cleared >= len(rows) {
			return true, ts.atOnce(kind, "")
		}
	case behind != nil:
		ts.tx.Clear(cursor)
	case cleared == len(rows):
		return false, nil
	}
	return true, ts.forgetLater(kind)
}
