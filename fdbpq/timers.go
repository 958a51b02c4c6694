package fdbpq

import (
	"cmp"
	"fmt"
	"math"
	"sync/atomic"
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
	timerLease:   {ofItem: true, ahead: itemAhead(spaceLeased), due: func(qtx *queueTx, t timer) error { return leases{qtx}.due(t) }},
	timerDelay:   {ofItem: true, ahead: itemAhead(spaceDelayed), due: func(qtx *queueTx, t timer) error { return times{qtx}.delayDue(t) }},
	timerExpiry:  {ofItem: true, due: func(qtx *queueTx, t timer) error { return times{qtx}.ttlDue(t) }},
	timerMsgID:   {ahead: func(t timer) []byte { return msgIDRow(t.queue, t.id) }, due: func(qtx *queueTx, t timer) error { return ids{qtx}.due(t) }},
	timerPopID:   {due: func(qtx *queueTx, t timer) error { return popIDs{qtx}.due(t) }},
	timerRequest: {due: func(qtx *queueTx, t timer) error { return timers{qtx}.requestDue(t) }},
	timerKeys:    {ofQueue: true, due: func(qtx *queueTx, t timer) error { return keyIndex{qtx}.due(t) }},
	timerFair:    {ofQueue: true, due: func(qtx *queueTx, t timer) error { return fair{qtx}.due(t) }},
	timerTokens:  {ofQueue: true, due: func(qtx *queueTx, _ timer) error { return rates{qtx}.due() }},
	timerFences:  {ofQueue: true, due: func(qtx *queueTx, _ timer) error { return fences{qtx}.due() }},
}

// timerKind says what is done about a kind of timers.
type timerKind struct {
	ofItem  bool                        // of one item, at whose place it is. Others have an id
	ofQueue bool                        // it goes on with a work on many rows: no row asks for it
	ahead   func(timer) []byte          // a row that its work reads; nil: none is known before
	due     func(*queueTx, timer) error // its work. One of a generation that is over has none
}

func itemAhead(space string) func(timer) []byte {
	return func(t timer) []byte { return t.place.append(generationPrefix(space, t.queue, t.generation)) }
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

// due does the work of a timer of the queue.
func (ts timers) due(t timer) error {
	kind, known := timerKinds[t.kind]
	switch {
	case !known:
		return fmt.Errorf("unknown kind %q", t.kind)
	case kind.ofItem && t.generation != ts.state.generation:
		return nil // of a purged generation
	}
	return kind.due(ts.queueTx, t)
}

func (ts timers) start(due int64, kind string, p place) {
	ts.store.alarm.expect(due)
	ts.tx.Set(ts.timerKey(due, kind, p), nil)
}

func (ts timers) stop(due int64, kind string, p place) {
	ts.tx.Clear(ts.timerKey(due, kind, p))
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

// requestDue clears the rows of a request whose owner died. Package recipe writes them.
func (ts timers) requestDue(t timer) error {
	for _, space := range []string{spaceRequest, spaceResult} {
		ts.tx.Clear(append(queueRow(space, ts.name), t.id...))
	}
	return nil
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

// times is what a queue does about the delays and TTLs of items.
type times struct{ *queueTx }

// expire drops an item past its TTL, or moves it to the dead-letter queue.
func (ti times) expire(l *located) error {
	if ti.state.config.DeadLetterExpired {
		if taken, err := (deadLetters{ti.queueTx}).take(l, DeadExpired); taken || err != nil {
			return err
		}
	}
	ti.emit(Event{Type: EventExpired, ID: l.id(l.place), Priority: l.returnPriority, Deliveries: l.deliveries()})
	ti.change(l, nil)
	return nil
}

// ttlDue ends an item when its TTL is over, unless it is leased.
func (ti times) ttlDue(t timer) error {
	l, err := ti.locate(ti.tx, ID{t.place})
	if err != nil || l == nil || l.state == StateLeased || l.expires != t.due {
		return err
	}
	ti.txSize += itemTxSize(ti.name, &l.envelope, false)
	return ti.expire(l)
}

// delayDue makes an item ready when its delay is over.
func (ti times) delayDue(t timer) error {
	row, err := ti.tx.Get(ti.key(spaceDelayed, t.place))
	if err != nil || row == nil {
		return err
	}
	l, err := parseItemRow(spaceDelayed, row, t.place)
	if err != nil || l.due != t.due {
		return err
	}
	now, err := ti.now()
	if err != nil {
		return err
	}
	ti.txSize += itemTxSize(ti.name, &l.envelope, false)
	if l.expires != 0 && l.expires <= now {
		return ti.expire(l)
	}
	ready := *l
	ti.change(l, ready.from(0))
	return nil
}
