package fdbpq

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

var (
	// ErrLeaseRequired: key_limit and key_order count leases, so a pop without one is
	// refused.
	ErrLeaseRequired = errors.New("a lease is required where key_limit or key_order is set")

	// ErrOnlyMin: key_limit and key_order know the first item of each key, and no other.
	ErrOnlyMin = errors.New("only pop.min and peek.min of all priorities work where key_limit or key_order is set")
)

// RefusesEnd returns ErrOnlyMin for a selection that needs more than the first item of
// each key.
func (c *Config) RefusesEnd(sel *Selection) error {
	if c.limitsKeys() && (sel.End != Min || *sel.Band != AllPriorities) {
		return ErrOnlyMin
	}
	return nil
}

// Refuses returns why the configuration refuses a pop, one without a lease if that is 0.
func (c *Config) Refuses(sel *Selection, lease time.Duration) error {
	if c.limitsKeys() && lease == 0 {
		return ErrLeaseRequired
	}
	return c.RefusesEnd(sel)
}

// maxLooks bounds how many keys that give no item one pop looks at.
const maxLooks = 256

// turns selects items where items may have to wait for others of their key. It reads the
// items without a key and the rows of the keys in their common order.
type turns struct {
	*collector
	plain source
	heads source
	keys  map[string]*turn
	moved []*turn // whose row was elsewhere, or whose item before was selected
	looks int     // keys that gave no item
}

// turn is a key that a pop has looked at.
type turn struct {
	key   string
	room  int   // leases that it may have besides those it has
	at    place // of its next item
	ready bool  // it has one, and room

	begun, fresh *place // items up to these were selected or passed
}

func (c *collector) takeTurns() error {
	t := turns{collector: c, keys: make(map[string]*turn)}
	t.plain.next = c.scan(c.snapshot, c.state, spaceReady, Min, AllPriorities, "").next
	t.heads.next = c.scan(c.snapshot, c.state, spaceKeyHead, Min, AllPriorities, "").next
	for len(c.items) < c.sel.Limit && !c.more {
		done, err := t.step()
		if err != nil || done {
			return err
		}
	}
	return nil
}

// step looks at the next item or key and reports whether it was the last one.
func (t *turns) step() (done bool, err error) {
	limit := t.sel.Limit - len(t.items)
	plain, err := t.plain.first(limit, t.sel.MaxBytes)
	if err != nil {
		return false, err
	}
	head, err := t.heads.first(limit, t.sel.MaxBytes)
	if err != nil {
		return false, err
	}
	slices.SortFunc(t.moved, func(a, b *turn) int { return a.at.compare(b.at) })
	switch {
	case len(t.moved) > 0 && before(t.moved[0].at, plain) && before(t.moved[0].at, head):
		next := t.moved[0]
		t.moved = t.moved[1:]
		return t.take(next)
	case head != nil && before(head.place, plain):
		t.heads.entries = t.heads.entries[1:]
		return t.look(head)
	case plain != nil:
		t.plain.entries = t.plain.entries[1:]
		return t.add(*plain)
	}
	return true, nil
}

// before reports whether a place is not behind an entry, or there is none.
func before(p place, e *entry) bool { return e == nil || p.compare(e.place) <= 0 }

// look looks at the key of a row.
func (t *turns) look(head *entry) (done bool, err error) {
	key := string(head.value)
	known := t.keys[key]
	next := known
	if known == nil {
		if next, err = t.lookAt(key); err != nil {
			return false, err
		}
	}
	if known == nil && next.ready && next.at == head.place {
		return t.take(next)
	}
	if known != nil && slices.Contains(t.moved, known) && known.at == head.place {
		return false, nil // the row is where it belongs
	}
	if t.remove {
		t.tx.Clear(t.key(spaceKeyHead, head.place))
	}
	if known == nil && next.ready {
		t.moved = append(t.moved, next)
		if t.remove {
			t.tx.Set(t.key(spaceKeyHead, next.at), head.value)
		}
		return false, nil
	}
	if t.looks++; t.looks == maxLooks && t.remove {
		t.more = len(t.items) == 0
		return true, nil
	}
	return false, nil
}

// lookAt reads how many leases a key has, and its next item. What gives the key room
// again changes what this has read, and so does another lease of it.
func (t *turns) lookAt(key string) (*turn, error) {
	next := &turn{key: key, room: t.state.config.leasesOfKey()}
	t.keys[key] = next
	r := t.snapshot
	if t.remove {
		r = kv.Reader(t.tx)
	}
	begin, end := tuple.Range(t.keyRow(spaceKeyHeld, key))
	held, err := r.Range(begin, end, kv.RangeOptions{Limit: next.room})
	if err != nil {
		return nil, err
	}
	next.room -= len(held)
	return next, t.advance(next)
}

// advance finds the next item of a key.
func (t *turns) advance(next *turn) (err error) {
	next.ready = false
	if next.room == 0 {
		return nil
	}
	if t.state.config.KeyOrder {
		if next.at, next.ready, err = t.firstIn(t.snapshot, spaceKeyBegun, next.key, next.begun); err != nil {
			return err
		}
		if next.ready {
			next.begun = &place{next.at.priority, next.at.tail}
			return nil
		}
	}
	next.at, next.ready, err = t.firstIn(t.snapshot, spaceKeyReady, next.key, next.fresh)
	next.fresh = &place{next.at.priority, next.at.tail}
	return err
}

// take selects the next item of a key.
func (t *turns) take(next *turn) (done bool, err error) {
	row, err := t.snapshot.Get(t.queueTx.key(spaceKeyed, next.at))
	if err != nil {
		return false, err
	}
	if row == nil {
		return false, fmt.Errorf("damaged key %q: its first ready item is missing", next.key)
	}
	selected, passed := len(t.items), t.expired
	done, err = t.add(entry{place: next.at, value: row})
	if err != nil {
		return false, err
	}
	switch {
	case len(t.items) > selected:
		if next.room--; next.room == 0 && t.remove {
			t.queueTx.keys.of(next.key).full = true
		}
	case done && t.expired == passed:
		return true, nil // it does not fit
	}
	if done {
		return true, nil
	}
	if err := t.advance(next); err != nil {
		return false, err
	}
	if next.ready {
		t.moved = append(t.moved, next)
	}
	return false, nil
}
