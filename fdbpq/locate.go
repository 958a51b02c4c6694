package fdbpq

import (
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// State is the state of an item.
type State string

const (
	StateReady   State = "ready"
	StateLeased  State = "leased"
	StateDelayed State = "delayed"
)

// located is an item found in one of its queue's spaces.
type located struct {
	place          place
	state          State
	due            int64 // when a lease or a delay ends
	returnPriority int64 // priority that a leased item returns to
	envelope
}

// locate finds an item by its id in any state, nil when there is none. The
// transaction depends on the rows that exist and on those that do not.
func (q Queue) locate(r kv.Reader, s *queueState, id ID) (*located, error) {
	at := id.place
	rows, err := q.rowsAt(r, s, at)
	if err != nil {
		return nil, err
	}
	if forward := rows[len(rows)-1]; forward != nil {
		if at.priority, _, err = tuple.ConsumeInt(forward); err != nil {
			return nil, fmt.Errorf("damaged forwarding row: %w", err)
		}
		if rows, err = q.rowsAt(r, s, at); err != nil {
			return nil, err
		}
	}
	for i, space := range s.itemSpaces() {
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
		l.envelope, err = parseEnvelope(b, p)
		if err == nil && l.foreign && space == spaceKeyed {
			err = errors.New("damaged item: no other program writes items with keys")
		}
	case spaceDelayed:
		l.state = StateDelayed
		l.due, l.envelope, err = parseDelayed(b, p)
	case spaceLeased:
		var leased leasedItem
		leased, err = parseLeased(b, p)
		l.state, l.due, l.returnPriority, l.envelope = StateLeased, leased.due, leased.returnPriority, leased.envelope
	}
	return l, err
}

// itemSpaces are the spaces that may have an item of the queue.
func (s *queueState) itemSpaces() []string {
	if s.keyed {
		return itemSpaces
	}
	return itemSpaces[:3:3]
}

var itemSpaces = []string{spaceReady, spaceDelayed, spaceLeased, spaceKeyed}

// rowsAt reads the rows of a place in all spaces of items, and its forwarding row.
func (q Queue) rowsAt(r kv.Reader, s *queueState, p place) ([][]byte, error) {
	return r.GetAll(q.rowKeys(s, p))
}

func (q Queue) rowKeys(s *queueState, p place) [][]byte {
	spaces := s.itemSpaces()
	keys := make([][]byte, 0, len(spaces)+1)
	for _, space := range spaces {
		keys = append(keys, p.append(generationPrefix(space, q.name, s.generation)))
	}
	return append(keys, p.append(generationPrefix(spaceForward, q.name, s.generation)))
}

// remove clears a located item's row and timers.
func (qtx *queueTx) remove(l *located) {
	switch l.state {
	case StateReady:
		qtx.removeReady(l.place, &l.envelope)
	case StateDelayed:
		qtx.removeDelayed(l.place, l.due, &l.envelope)
	case StateLeased:
		qtx.removeLeased(l.place, l.asLeased())
	}
}

func (l *located) asLeased() *leasedItem {
	return &leasedItem{due: l.due, returnPriority: l.returnPriority, envelope: l.envelope}
}
