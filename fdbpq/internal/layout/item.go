package layout

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

// Item is an item with its state and place. All of its rows are a function of that record.
type Item struct {
	Place          Place
	State          State
	Due            int64 // when a lease or a delay ends
	ReturnPriority int64 // priority that a leased item returns to; of others, the one that they have
	Over           bool  // of a leased item: its lease has ended, and is counted
	Envelope
}

// ParseItem parses the value of an item's row in the given space.
func ParseItem(space string, b []byte, p Place) (*Item, error) {
	l := new(Item)
	return l, l.Parse(space, b, p)
}

// Parse makes l the item of a row in the given space.
func (l *Item) Parse(space string, b []byte, p Place) (err error) {
	*l = Item{Place: p, ReturnPriority: p.Priority}
	switch space {
	case SpaceReady, SpaceKeyed:
		l.State = StateReady
	case SpaceDelayed:
		l.State = StateDelayed
		if l.Due, b, err = tuple.ConsumeInt(b); err != nil {
			return fmt.Errorf("damaged delayed item: %w", err)
		}
	case SpaceLeased:
		r := tuple.Read(b)
		l.State, l.Due, l.ReturnPriority = StateLeased, r.Int(), r.Int()
		if b, err = r.Rest(), r.Err(); err != nil {
			return fmt.Errorf("damaged lease: %w", err)
		}
	default:
		return nil
	}
	l.Envelope, err = ParseEnvelope(b, p)
	l.Over = l.Dying()
	if err == nil && l.Foreign && space == SpaceKeyed {
		err = errors.New("damaged item: no other program writes items with keys")
	}
	return err
}

// AppendRow appends the row that Parse reads.
func (l *Item) AppendRow(b []byte) []byte {
	switch l.State {
	case StateDelayed:
		b = tuple.AppendInt(b, l.Due)
	case StateLeased:
		b = tuple.AppendInt(tuple.AppendInt(b, l.Due), l.ReturnPriority)
	}
	return l.Envelope.Append(b)
}

// Space is the space of the item's row.
func (l *Item) Space() string {
	switch l.State {
	case StateDelayed:
		return SpaceDelayed
	case StateLeased:
		return SpaceLeased
	}
	return l.ReadySpace()
}

// ReadyItem is an item that is ready.
func ReadyItem(p Place, e Envelope) Item {
	return Item{Place: p, State: StateReady, ReturnPriority: p.Priority, Envelope: e}
}

// Home is the place in the item's id.
func (l *Item) Home() Place { return l.HomeOf(l.Place) }

// At moves the item to a priority.
func (l *Item) At(priority int64) *Item {
	l.Place.Priority, l.ReturnPriority = priority, priority
	return l
}

// From has the item be ready from a time on, delayed until then; 0: at once.
func (l *Item) From(due int64) *Item {
	l.State, l.Due = StateReady, due
	if due != 0 {
		l.State = StateDelayed
	}
	return l
}

// ItemSpaces are the spaces that may have an item, and UnkeyedSpaces those that may have one without a key.
var (
	ItemSpaces    = []string{SpaceReady, SpaceDelayed, SpaceLeased, SpaceKeyed}
	UnkeyedSpaces = ItemSpaces[:3:3]
)

// ReadySpace is the space of the item when it is ready.
func (e *Envelope) ReadySpace() string {
	if e.Key != "" {
		return SpaceKeyed
	}
	return SpaceReady
}

// Begun reports whether the item was leased before, so that key_order hands it out
// before the others of its key.
func (e *Envelope) Begun() bool { return e.Key != "" && e.Fence > 0 }

// Held reports whether a link holds the item.
func (l *Item) Held() bool { return l.State == StateLeased && l.Due == int64(NoEnd) && !l.Dying() }

// Dying reports whether the item is dead, and waits in its queue for room to be moved to the dead letters. It counts as leased,
// and nobody has it. Since is when it died, in store time.
func (l *Item) Dying() bool {
	return l.State == StateLeased && l.Due == int64(NoEnd) && l.Holder == "" && l.Dead.Reason != "" && l.Dead.Origin == ""
}

// Deliveries is how often the item was handed out with a lease. A dying item's last delivery may have ended without a number of its
// own.
func (l *Item) Deliveries() int64 {
	if l.Dying() {
		return l.Dead.Deliveries
	}
	return l.Envelope.Deliveries()
}

// NoEnd is the lease of a held item: no timer ends it.
const NoEnd = time.Duration(math.MaxInt64)

// MayHoldKey reports whether the item may count as leased: whether a delayed one does, the
// configuration decided when its lease ended.
func (l *Item) MayHoldKey() bool {
	return l.State == StateLeased && !l.Dying() || l.State == StateDelayed && l.Begun()
}
