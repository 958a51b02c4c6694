package fdbpq

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// The kinds of timers. In a key the kind follows the due time, so one range has all
// timers in the order in which they fall due.
const (
	timerLease   = "l" // a lease runs out
	timerDelay   = "d" // a delayed item becomes ready
	timerExpiry  = "t" // an item outlives its TTL
	timerMsgID   = "u" // a message id is forgotten
	timerPopID   = "p" // a pop id is forgotten
	timerRequest = "o" // the request of a staged pop is cleared
	timerKeys    = "k" // keys are to be looked at after another limit was set
	timerFair    = "f" // keys are to be given a row in the fair order
	timerTokens  = "b" // full buckets of keys are cleared
	timerFences  = "e" // fences of keys that time has passed are cleared
)

// timerKinds has all kinds of timers.
var timerKinds = map[string]timerKind{
	timerLease:   {ofItem: true},
	timerDelay:   {ofItem: true},
	timerExpiry:  {ofItem: true},
	timerMsgID:   {},
	timerPopID:   {},
	timerRequest: {},
	timerKeys:    {ofQueue: true},
	timerFair:    {ofQueue: true},
	timerTokens:  {ofQueue: true},
	timerFences:  {ofQueue: true},
}

// timerKind says how timers of a kind look, and why they are there.
type timerKind struct {
	ofItem  bool // of one item, at whose place it is. Others have an id
	ofQueue bool // it goes on with a work on many rows: no row asks for it
}

// appendTimerKey appends the key of an item's timer.
func appendTimerKey(b []byte, due int64, kind, queue string, generation int64, p place) []byte {
	b = tuple.AppendString(b, spaceTimer)
	b = tuple.AppendInt(b, due)
	b = tuple.AppendString(b, kind)
	b = tuple.AppendString(b, queue)
	b = tuple.AppendInt(b, generation)
	return p.append(b)
}

// idTimerKey returns the key of a timer that is not of an item.
func idTimerKey(due int64, kind, queue, id string) []byte {
	b := tuple.AppendString(nil, spaceTimer)
	b = tuple.AppendInt(b, due)
	b = tuple.AppendString(b, kind)
	b = tuple.AppendString(b, queue)
	return tuple.AppendString(b, id)
}

// timer is a parsed timer row.
type timer struct {
	due        int64
	kind       string
	queue      string
	generation int64  // of item timers
	place      place  // of item timers
	id         string // of the other timers
}

func parseTimer(key []byte) (timer, error) {
	r := tuple.Read(key[len(row(spaceTimer)):])
	t := timer{due: r.Int(), kind: r.Text(), queue: r.Text()}
	var err error
	if kind, known := timerKinds[t.kind]; known && !kind.ofItem {
		t.id = r.Text()
	} else if t.generation = r.Int(); r.Err() == nil {
		t.place, err = parsePlace(r.Rest())
	}
	if err = cmp.Or(r.Err(), err); err != nil {
		return t, fmt.Errorf("damaged timer: %w", err)
	}
	return t, nil
}

// timers is what a queue does about its timers.
type timers struct{ *queueTx }

func (ts timers) start(due int64, kind string, p place) {
	ts.store.alarm.expect(due)
	ts.tx.Set(ts.timerKey(due, kind, p), nil)
}

func (ts timers) stop(due int64, kind string, p place) {
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
	if kind == timerFences {
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
	ts.tx.Set(idTimerKey(due, kind, ts.name, ""), nil)
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
	ts.tx.Set(idTimerKey(now, kind, ts.name, id), nil)
	return nil
}

// forget clears rows of keys in a space that say nothing any more, and reports whether
// a timer looks at others later.
func (ts timers) forget(space, kind string, gone func(key string, value []byte) (bool, error)) (later bool, err error) {
	cursor := queueRow(space, ts.name)
	behind, err := ts.tx.Get(cursor)
	if err != nil {
		return false, err
	}
	begin, end := tuple.Range(cursor)
	if behind != nil {
		begin = tuple.PrefixEnd(tuple.AppendBytes(queueRow(space, ts.name), behind))
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
