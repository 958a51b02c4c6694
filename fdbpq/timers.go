package fdbpq

import (
	"fmt"
	"math"
	"sync/atomic"
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

// timerWorks has the work of each kind of timers.
var timerWorks = map[string]timerWork{
	layout.TimerLease:   ofItem(noWayBack, layout.SpaceLeased, func(qtx *queueTx, l *layout.Item) error { return qtx.retries.runOut(l) }),
	layout.TimerDelay:   ofItem(noWayBack, layout.SpaceDelayed, delayDue),
	layout.TimerExpiry:  {due: func(qtx *queueTx, t layout.Timer) error { return qtx.expiries.due(t) }},
	layout.TimerMsgID:   {ahead: msgIDAhead, due: func(qtx *queueTx, t layout.Timer) error { return qtx.ids.due(t) }},
	layout.TimerPopID:   {due: func(qtx *queueTx, t layout.Timer) error { return qtx.popIDs.due(t) }},
	layout.TimerRequest: {due: requestDue},
	layout.TimerKeys:    {once: true, waits: noWayBack, due: func(qtx *queueTx, t layout.Timer) error { return qtx.keyIndex.due(t) }},
	layout.TimerFair:    {once: true, waits: noWayBack, due: func(qtx *queueTx, t layout.Timer) error { return qtx.fairIndex.due(t) }},
	layout.TimerTokens:  {due: func(qtx *queueTx, _ layout.Timer) error { return qtx.rates.due() }},
	layout.TimerFences:  {due: func(qtx *queueTx, _ layout.Timer) error { return qtx.fences.due() }},
	layout.TimerBurial:  ofItem(noBurials, layout.SpaceLeased, func(qtx *queueTx, l *layout.Item) error { return qtx.deadLetters.due(l) }),
	layout.TimerUnused:  {ahead: lookAhead, due: unusedDue},
	layout.TimerResults: {once: true, due: func(qtx *queueTx, t layout.Timer) error { return qtx.results.due(t) }},
}

// timerWork is the work of timers that fall due.
type timerWork struct {
	ahead func(layout.Timer) []byte          // a row that the work reads, if it is known before
	due   func(*queueTx, layout.Timer) error // a timer of a generation that is over has no work
	once  bool                               // timers of the same id have the same work, however many are due
	waits shortage                           // the least in which it waits; roomy: it does not
}

// ofItem is the work of the timer that ends the state of an item. The item may have another state meanwhile, and another timer.
func ofItem(waits shortage, space string, work func(*queueTx, *layout.Item) error) timerWork {
	due := func(qtx *queueTx, t layout.Timer) error {
		row, err := qtx.tx.Get(qtx.key(space, t.Place))
		if err != nil || row == nil {
			return err
		}
		l, err := layout.ParseItem(space, row, t.Place)
		if err != nil || l.End() != (layout.ItemTimer{Due: t.Due, Kind: t.Kind}) {
			return err
		}
		qtx.txSize += itemTxSize(qtx.name, &l.Envelope, false)
		return work(qtx, l)
	}
	ahead := func(t layout.Timer) []byte {
		return t.Place.Append(layout.GenerationPrefix(space, t.Queue, t.Generation))
	}
	return timerWork{ahead: ahead, due: due, waits: waits}
}

func msgIDAhead(t layout.Timer) []byte { return msgIDRow(t.Queue, t.ID) }

func lookAhead(t layout.Timer) []byte { return lookRow(t.Queue) }

// runDue does the work of a timer of the queue.
func runDue(qtx *queueTx, t layout.Timer) error {
	work, known := timerWorks[t.Kind]
	switch {
	case !known:
		return fmt.Errorf("unknown kind %q", t.Kind)
	case layout.TimerKinds[t.Kind].OfItem && t.Generation != qtx.state.generation:
		return nil // of a purged generation
	}
	return work.due(qtx, t)
}

// delayDue makes an item ready when its delay is over.
func delayDue(qtx *queueTx, l *layout.Item) error {
	now, err := qtx.now()
	if err != nil {
		return err
	}
	if l.Expires != 0 && l.Expires <= now {
		return qtx.expiries.expire(l)
	}
	ready := *l
	qtx.change(l, ready.From(0))
	return nil
}

// requestDue clears the rows of a request whose owner died. Package recipe writes them.
func requestDue(qtx *queueTx, t layout.Timer) error {
	for _, space := range []string{layout.SpaceRequest, layout.SpaceResult} {
		qtx.tx.Clear(append(layout.QueueRow(space, qtx.name), t.ID...))
	}
	return nil
}

// alarm wakes this process's sweeper when the earliest known timer falls due. It
// rings early when a transaction sets an earlier timer. It may ring in vain, since
// that transaction may not commit.
type alarm struct {
	next atomic.Int64 // store time of the earliest timer; 0: no sweeper runs
	ring chan struct{}
}

func (a *alarm) init() { a.ring = make(chan struct{}, 1) }

// reset forgets the earliest timer; the sweeper is about to read the timers.
func (a *alarm) reset() { a.next.Store(math.MaxInt64) }

// expect records a timer that a transaction sets.
func (a *alarm) expect(due int64) {
	for {
		next := a.next.Load()
		if due >= next {
			return
		}
		if a.next.CompareAndSwap(next, due) {
			break
		}
	}
	select {
	case a.ring <- struct{}{}:
	default:
	}
}

// until returns the time from now to the earliest timer, which may be over.
func (a *alarm) until(now int64) time.Duration {
	return time.Duration(a.next.Load() - now)
}

// expiries ends items whose TTL is over.
type expiries struct{ *queueTx }

// expire drops an item past its TTL, or moves it to the dead-letter queue.
func (ex expiries) expire(l *layout.Item) error {
	if ex.state.config.DeadLetterExpired {
		if taken, err := ex.deadLetters.take(l, DeadExpired); taken || err != nil {
			return err
		}
	}
	ex.emit(Event{Type: EventExpired, ID: idOf(l), Priority: l.ReturnPriority, Deliveries: l.Deliveries()})
	return ex.end(l, finish{how: FinishExpired})
}

// due ends an item when its TTL is over, unless it is leased.
func (ex expiries) due(t layout.Timer) error {
	l, err := ex.locate(ex.tx, ID{t.Place})
	if err != nil || l == nil || l.State == layout.StateLeased || l.Expires != t.Due {
		return err
	}
	ex.txSize += itemTxSize(ex.name, &l.Envelope, false)
	return ex.expire(l)
}
