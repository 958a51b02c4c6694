package fdbpq

import (
	"cmp"
	"fmt"

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

// itemTimer is a timer of an item, which is at the item's place.
type itemTimer struct {
	due  int64
	kind string // "": none
}

// end is the timer of the item's state.
func (l *located) end() itemTimer {
	switch l.state {
	case StateDelayed:
		return itemTimer{l.due, timerDelay}
	case StateLeased:
		if l.held() {
			return itemTimer{}
		}
		return itemTimer{l.due, timerLease}
	}
	return itemTimer{}
}

// expiry is the timer of the item's TTL. Leased items have none.
func (l *located) expiry() itemTimer {
	if l.expires == 0 || l.state == StateLeased {
		return itemTimer{}
	}
	return itemTimer{l.expires, timerExpiry}
}
