package fdbpq

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// State is the state of an item.
type State string

const (
	StateReady   State = "ready"
	StateLeased  State = "leased"
	StateDelayed State = "delayed"
)

// located is an item with its state and place. Its rows are a function of that: see change.
type located struct {
	place          place
	state          State
	due            int64 // when a lease or a delay ends
	returnPriority int64 // priority that a leased item returns to; of others, the one that they have
	over           bool  // of a leased item: its lease has ended, and is counted
	envelope
}

// parseItemRow parses the value of an item's row in the given space.
func parseItemRow(space string, b []byte, p place) (*located, error) {
	l := new(located)
	return l, l.parseRow(space, b, p)
}

// parseRow makes l the item of a row in the given space.
func (l *located) parseRow(space string, b []byte, p place) (err error) {
	*l = located{place: p, returnPriority: p.priority}
	switch space {
	case spaceReady, spaceKeyed:
		l.state = StateReady
	case spaceDelayed:
		l.state = StateDelayed
		if l.due, b, err = tuple.ConsumeInt(b); err != nil {
			return fmt.Errorf("damaged delayed item: %w", err)
		}
	case spaceLeased:
		r := tuple.Read(b)
		l.state, l.due, l.returnPriority = StateLeased, r.Int(), r.Int()
		if b, err = r.Rest(), r.Err(); err != nil {
			return fmt.Errorf("damaged lease: %w", err)
		}
	default:
		return nil
	}
	l.envelope, err = parseEnvelope(b, p)
	if err == nil && l.foreign && space == spaceKeyed {
		err = errors.New("damaged item: no other program writes items with keys")
	}
	return err
}

// appendRow appends what parseItemRow parses.
func (l *located) appendRow(b []byte) []byte {
	switch l.state {
	case StateDelayed:
		b = tuple.AppendInt(b, l.due)
	case StateLeased:
		b = tuple.AppendInt(tuple.AppendInt(b, l.due), l.returnPriority)
	}
	return l.envelope.append(b)
}

// space is the space of the item's row.
func (l *located) space() string {
	switch l.state {
	case StateDelayed:
		return spaceDelayed
	case StateLeased:
		return spaceLeased
	}
	return l.readySpace()
}

// readyItem is an item that is ready.
func readyItem(p place, e envelope) located {
	return located{place: p, state: StateReady, returnPriority: p.priority, envelope: e}
}

// home is the place in the item's id.
func (l *located) home() place { return l.homeOf(l.place) }

// at moves the item to a priority.
func (l *located) at(priority int64) *located {
	l.place.priority, l.returnPriority = priority, priority
	return l
}

// from has the item be ready from a time on, delayed until then; 0: at once.
func (l *located) from(due int64) *located {
	l.state, l.due = StateReady, due
	if due != 0 {
		l.state = StateDelayed
	}
	return l
}

// itemSpaces are the spaces that may have an item, and unkeyedSpaces those of an item without a key.
var (
	itemSpaces    = []string{spaceReady, spaceDelayed, spaceLeased, spaceKeyed}
	unkeyedSpaces = itemSpaces[:3:3]
)

// readySpace is the space of the item when it is ready.
func (e *envelope) readySpace() string {
	if e.key != "" {
		return spaceKeyed
	}
	return spaceReady
}

// begun reports whether the item was leased before, so that key_order hands it out
// before the others of its key.
func (e *envelope) begun() bool { return e.key != "" && e.fence > 0 }

// held reports whether a link holds the item.
func (l *located) held() bool { return l.state == StateLeased && l.due == int64(noEnd) }

// A link gives the items of a queue to a queue of another store, the taker, in batches. One batch is out at a time. Its items
// are held until the taker asks for the next one, and by that says that it has committed them. Both sides keep the number and
// the random id of the last batch in the transaction that moves the items. So a batch whose answer was lost is answered again, and
// each store notices when the other one has lost its end.
//
// A held item is leased without an end: no timer ends it, and nobody but the link. It neither began nor ends at a time, so what
// asks for old leases, or for leases that have run out, does not find it.

// noEnd is the lease of a held item.
const noEnd = time.Duration(math.MaxInt64)

// mayHoldKey reports whether the item may count as leased: whether a delayed one does, the
// configuration decided when its lease ended.
func (l *located) mayHoldKey() bool {
	return l.state == StateLeased || l.state == StateDelayed && l.begun()
}
