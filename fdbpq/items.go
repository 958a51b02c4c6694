package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// StoredItem is an item found by its id.
type StoredItem struct {
	Item
	State   State
	Due     int64 // store time at which a lease or a delay ends; 0 when ready
	Expires int64 // store time at which its TTL is over; 0: never
	Fence   int64 // leases so far, given back ones included
}

// Get returns an item by its id, whatever its state; nil when there is none.
func (q Queue) Get(r kv.Reader, id ID) (*StoredItem, error) {
	s, err := q.read(r)
	if err != nil || s == nil {
		return nil, err
	}
	l, err := q.locate(r, s, id)
	if err != nil || l == nil {
		return nil, err
	}
	return q.held(r, s, l, true)
}

func (q Queue) held(r kv.Reader, s *state, l *located, content bool) (*StoredItem, error) {
	f := found{place: l.place, envelope: l.envelope}
	load := loadHeaders
	if content {
		load = loadContent
	}
	if err := load(r, generationPrefix(spaceChunk, q.name, s.generation), &f.envelope, f.place); err != nil {
		return nil, err
	}
	item, err := f.item()
	if err != nil {
		return nil, err
	}
	return &StoredItem{Item: item, State: l.state, Due: l.due, Expires: l.expires, Fence: l.fence}, nil
}

// Remove cancels an item, whatever its state, and says whether there was one.
// The holder of a lease on it has lost it.
func (q Queue) Remove(tx kv.Tx, id ID) (bool, error) {
	c, l, err := q.reach(tx, id)
	if err != nil || l == nil {
		return false, err
	}
	c.remove(l)
	c.drop(l.place, &l.envelope)
	c.finish()
	return true, nil
}

// Move gives an item another priority and says whether there was one. It keeps
// its id and its place among the items of equal priority that were pushed
// before and after it. A leased item moves when it comes back.
func (q Queue) Move(tx kv.Tx, id ID, priority int64) (bool, error) {
	c, l, err := q.reach(tx, id)
	if err != nil || l == nil {
		return false, err
	}
	if l.state == StateLeased {
		held := l.held()
		held.target = priority
		tx.Set(c.key(spaceLeased, l.place), held.append(nil))
		return true, nil
	}
	if priority == l.place.priority {
		return true, nil
	}
	c.remove(l)
	to := c.relocate(l.place, &l.envelope, priority)
	if l.state == StateDelayed {
		c.addDelayed(to, l.due, &l.envelope)
	} else {
		c.addReady(to, &l.envelope)
	}
	c.finish()
	return true, nil
}

// reach finds an item that is to be changed.
func (q Queue) reach(tx kv.Tx, id ID) (*change, *located, error) {
	c, err := q.begin(tx)
	if err != nil || c == nil {
		return nil, nil, err
	}
	l, err := q.locate(tx, c.state, id)
	return c, l, err
}
