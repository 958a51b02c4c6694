package layout

import (
	"cmp"
	"fmt"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// The kinds of timers. In a key the kind follows the due time, so one range has all
// timers in the order in which they fall due.
const (
	TimerLease   = "l" // a lease runs out
	TimerDelay   = "d" // a delayed item becomes ready
	TimerExpiry  = "t" // an item outlives its TTL
	TimerMsgID   = "u" // a message id is forgotten
	TimerPopID   = "p" // a pop id is forgotten
	TimerRequest = "o" // the request of a staged pop is cleared
	TimerKeys    = "k" // keys are to be looked at after another limit was set
	TimerFair    = "f" // keys are to be given a row in the fair order
	TimerTokens  = "b" // full buckets of keys are cleared
	TimerFences  = "e" // fences of keys that time has passed are cleared
	TimerResults = "r" // results are forgotten
	TimerBurial  = "g" // an item that is dead is moved to the dead letters, as soon as there is room
	TimerUnused  = "x" // a queue that nobody uses is deleted
)

// TimerKinds has all kinds of timers.
var TimerKinds = map[string]TimerKind{
	TimerLease:   {OfItem: true},
	TimerDelay:   {OfItem: true},
	TimerExpiry:  {OfItem: true},
	TimerMsgID:   {},
	TimerPopID:   {},
	TimerRequest: {},
	TimerKeys:    {OfQueue: true},
	TimerFair:    {OfQueue: true},
	TimerTokens:  {OfQueue: true},
	TimerFences:  {OfQueue: true},
	TimerResults: {OfQueue: true},
	TimerBurial:  {OfItem: true},
	TimerUnused:  {},
}

// TimerKind says how timers of a kind look, and why they are there.
type TimerKind struct {
	OfItem  bool // of one item, at whose place it is. Others have an id
	OfQueue bool // it goes on with a work on many rows: no row asks for it
}

// AppendTimerKey appends the key of an item's timer.
func AppendTimerKey(b []byte, due int64, kind, queue string, generation int64, p Place) []byte {
	b = tuple.AppendString(b, SpaceTimer)
	b = tuple.AppendInt(b, due)
	b = tuple.AppendString(b, kind)
	b = tuple.AppendString(b, queue)
	b = tuple.AppendInt(b, generation)
	return p.Append(b)
}

// IDTimerKey returns the key of a timer that is not of an item.
func IDTimerKey(due int64, kind, queue, id string) []byte {
	b := tuple.AppendString(nil, SpaceTimer)
	b = tuple.AppendInt(b, due)
	b = tuple.AppendString(b, kind)
	b = tuple.AppendString(b, queue)
	return tuple.AppendString(b, id)
}

// Timer is a parsed timer row.
type Timer struct {
	Due        int64
	Kind       string
	Queue      string
	Generation int64  // of item timers
	Place      Place  // of item timers
	ID         string // of the other timers
}

// ParseTimer reads the key of a timer.
func ParseTimer(key []byte) (Timer, error) {
	r := tuple.Read(key[len(Row(SpaceTimer)):])
	t := Timer{Due: r.Int(), Kind: r.Text(), Queue: r.Text()}
	var err error
	if kind, known := TimerKinds[t.Kind]; known && !kind.OfItem {
		t.ID = r.Text()
	} else if t.Generation = r.Int(); r.Err() == nil {
		t.Place, err = ParsePlace(r.Rest())
	}
	if err = cmp.Or(r.Err(), err); err != nil {
		return t, fmt.Errorf("damaged timer: %w", err)
	}
	return t, nil
}

// ItemTimer is a timer of an item, which is at the item's place.
type ItemTimer struct {
	Due  int64
	Kind string // "": none
}

// End is the timer of the item's state.
func (l *Item) End() ItemTimer {
	switch l.State {
	case StateDelayed:
		return ItemTimer{l.Due, TimerDelay}
	case StateLeased:
		switch {
		case l.Dying():
			return ItemTimer{l.Since, TimerBurial}
		case l.Held():
			return ItemTimer{}
		}
		return ItemTimer{l.Due, TimerLease}
	}
	return ItemTimer{}
}

// Expiry is the timer of the item's TTL. Leased items have none.
func (l *Item) Expiry() ItemTimer {
	if l.Expires == 0 || l.State == StateLeased {
		return ItemTimer{}
	}
	return ItemTimer{l.Expires, TimerExpiry}
}
