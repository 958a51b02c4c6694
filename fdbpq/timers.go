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

// changed sets the timers of an item: of a lease or a delay, and of its TTL.
func (ts timers) changed(before, after *layout.Item) {
	ts.replace(before, after, before.End(), after.End())
	was, is := before.Expiry(), after.Expiry()
	ts.replace(before, after, was, is)
	if was.Due != 0 {
		ts.tally.Expiring--
	}
	if is.Due != 0 {
		ts.tally.Expiring++
	}
}

func (ts timers) replace(before, after *layout.Item, was, is layout.ItemTimer) {
	if was == is && before.Place == after.Place {
		return
	}
	if was.Kind != "" {
		ts.stop(was.Due, was.Kind, before.Place)
	}
	if is.Kind != "" {
		ts.start(is.Due, is.Kind, after.Place)
	}
}

func (ts timers) start(due int64, kind string, p layout.Place) {
	ts.store.alarm.expect(due)
	ts.tx.Set(ts.timerKey(due, kind, p), nil)
}

func (ts timers) stop(due int64, kind string, p layout.Place) {
	ts.tx.Clear(ts.timerKey(due, kind, p))
}

// Keys have rows outside generations: buckets of tokens, and fences. Full buckets, and fences
// that time has passed, need no rows, and a timer of the queue clears them. It reads a
// bounded number of rows. If it could clear enough of them, the next timer is due at once, and
// otherwise some time later, however many rows there are. The row of the space without a key
// keeps the key behind which the next timer goes on.

// forgetAtOnce bounds how many rows one timer reads.
const forgetAtOnce = 256

// forgetEvery is how often a timer reads such rows.
func forgetEvery(kind string) int64 {
	if kind == layout.TimerFences {
		return int64(10 * time.Second) // nearly all go at once
	}
	return int64(time.Minute)
}

// forgetLater sets the next timer that reads rows of keys. All of a queue's transactions within
// a period set the same timer.
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

// atOnce sets a timer that is due already, for the rest of a long work.
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

// forget clears the rows of keys in a space for which gone reports true, and reports
// whether another timer is set.
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
