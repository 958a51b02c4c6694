package fdbpq

import (
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
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
	envelope
}

// locate finds an item by its id in any state, nil when there is none. The
// transaction depends on the rows that exist and on those that do not.
func (qtx *queueTx) locate(r kv.Reader, id ID) (*located, error) {
	at := id.place
	rows, err := r.GetAll(qtx.rowsAt(at))
	if err != nil {
		return nil, err
	}
	if forward := rows[len(rows)-1]; forward != nil {
		if at.priority, _, err = tuple.ConsumeInt(forward); err != nil {
			return nil, fmt.Errorf("damaged forwarding row: %w", err)
		}
		if rows, err = r.GetAll(qtx.rowsAt(at)); err != nil {
			return nil, err
		}
	}
	for i, space := range qtx.state.itemSpaces() {
		if rows[i] != nil {
			return parseItemRow(space, rows[i], at)
		}
	}
	return nil, nil
}

// parseItemRow parses the value of an item's row in the given space.
func parseItemRow(space string, b []byte, p place) (*located, error) {
	l := &located{place: p, returnPriority: p.priority}
	var err error
	switch space {
	case spaceReady, spaceKeyed:
		l.state = StateReady
	case spaceDelayed:
		l.state = StateDelayed
		if l.due, b, err = tuple.ConsumeInt(b); err != nil {
			return nil, fmt.Errorf("damaged delayed item: %w", err)
		}
	case spaceLeased:
		l.state = StateLeased
		for _, field := range [...]*int64{&l.due, &l.returnPriority} {
			if *field, b, err = tuple.ConsumeInt(b); err != nil {
				return nil, fmt.Errorf("damaged lease: %w", err)
			}
		}
	default:
		return l, nil
	}
	l.envelope, err = parseEnvelope(b, p)
	if err == nil && l.foreign && space == spaceKeyed {
		err = errors.New("damaged item: no other program writes items with keys")
	}
	return l, err
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

// itemSpaces are the spaces that may have an item of the queue.
func (s *queueState) itemSpaces() []string {
	if s.keyed {
		return itemSpaces
	}
	return itemSpaces[:3:3]
}

var itemSpaces = []string{spaceReady, spaceDelayed, spaceLeased, spaceKeyed}

// rowsAt are the keys of a place in all spaces of items, and of its forwarding row.
func (qtx *queueTx) rowsAt(p place) [][]byte {
	spaces := qtx.state.itemSpaces()
	keys := make([][]byte, 0, len(spaces)+1)
	for _, space := range spaces {
		keys = append(keys, p.append(qtx.prefix(space)))
	}
	return append(keys, p.append(qtx.prefix(spaceForward)))
}
