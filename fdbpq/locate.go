package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// State is what an item is in.
type State string

const (
	StateReady   State = "ready"
	StateLeased  State = "leased"
	StateDelayed State = "delayed"
)

// located is an item that was found by its id.
type located struct {
	place  place
	state  State
	due    int64 // when a lease or a delay ends
	target int64 // priority a leased item comes back to
	envelope
}

// locate finds an item wherever it stands, nil when it is nowhere. The reads
// of a transaction depend on what was found, and on what was not.
func (q Queue) locate(r kv.Reader, s *state, id ID) (*located, error) {
	at := id.place
	rows, err := q.rowsAt(r, s, at)
	if err != nil {
		return nil, err
	}
	if forward := rows[3]; forward != nil {
		if at.priority, _, err = tuple.ConsumeInt(forward); err != nil {
			return nil, fmt.Errorf("damaged forwarding row: %w", err)
		}
		if rows, err = q.rowsAt(r, s, at); err != nil {
			return nil, err
		}
	}
	for i, space := range spaces[:3] {
		if rows[i] != nil {
			return parseStanding(space, rows[i], at)
		}
	}
	return nil, nil
}

// parseStanding reads the value of an item in the space where it stands.
func parseStanding(space string, b []byte, p place) (*located, error) {
	l := &located{place: p, target: p.priority}
	var err error
	switch space {
	case spaceReady:
		l.state = StateReady
		l.envelope, err = parseEnvelope(b, p)
	case spaceDelayed:
		l.state = StateDelayed
		l.due, l.envelope, err = parseDelayed(b, p)
	case spaceLeased:
		var held leased
		held, err = parseLeased(b, p)
		l.state, l.due, l.target, l.envelope = StateLeased, held.due, held.target, held.envelope
	}
	return l, err
}

// spaces are those that rowsAt looks at: where an item may stand, and the row
// that tells where it went.
var spaces = [...]string{spaceReady, spaceDelayed, spaceLeased, spaceForward}

// rowsAt reads the rows a place may have in each space.
func (q Queue) rowsAt(r kv.Reader, s *state, p place) ([][]byte, error) {
	return r.GetAll(q.rowKeys(s, p))
}

func (q Queue) rowKeys(s *state, p place) [][]byte {
	keys := make([][]byte, len(spaces))
	for i, space := range spaces {
		keys[i] = p.append(generationPrefix(space, q.name, s.generation))
	}
	return keys
}

// remove takes a located item out of the space it stands in.
func (c *change) remove(l *located) {
	switch l.state {
	case StateReady:
		c.removeReady(l.place, &l.envelope)
	case StateDelayed:
		c.removeDelayed(l.place, l.due, &l.envelope)
	case StateLeased:
		c.removeLeased(l.place, l.held())
	}
}

func (l *located) held() *leased {
	return &leased{due: l.due, target: l.target, envelope: l.envelope}
}

func (c *change) removeDelayed(p place, due int64, e *envelope) {
	c.tx.Clear(c.key(spaceDelayed, p))
	c.clearTimer(due, timerDelay, p)
	c.clearExpiry(p, e)
	c.tally.delayed--
}

func parseDelayed(b []byte, p place) (due int64, e envelope, err error) {
	due, rest, err := tuple.ConsumeInt(b)
	if err != nil {
		return 0, envelope{}, fmt.Errorf("damaged delayed item: %w", err)
	}
	e, err = parseEnvelope(rest, p)
	return due, e, err
}
