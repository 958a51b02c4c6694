package fdbpq

import (
	"slices"
)

// turns selects items in the order of the queue where items may have to wait for others of
// their key. It reads the items without a key and the rows of the keys in their common
// order.
type turns struct {
	looks
	plain source[entry]
	heads source[entry]
	moved []*turn // whose row was elsewhere, or whose item before was selected
}

func (c *collector) takeTurns() error {
	t := turns{looks: looks{collector: c, keys: make(map[string]*turn)}}
	t.plain.next = c.scan(c.front(), c.state, spaceReady, Min, AllPriorities, "").next
	heads := c.scan(c.front(), c.state, spaceKeyHead, Min, AllPriorities, "")
	t.heads.next = func(limit, maxBytes int) ([]entry, error) {
		entries, err := heads.next(limit, maxBytes)
		t.prefetch(entries)
		return entries, err
	}
	var err error
	if t.moved, err = t.refilled(); err != nil {
		return err
	}
	if err := c.untilDone(t.step); err != nil {
		return err
	}
	return t.spend()
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
	case len(t.moved) > 0 && t.moved[0].at.before(plain) && t.moved[0].at.before(head):
		next := t.moved[0]
		t.moved = t.moved[1:]
		return t.take(next)
	case head != nil && head.place.before(plain):
		return t.look(t.heads.take())
	case plain != nil:
		return t.add(t.plain.take())
	}
	return true, nil
}

// before reports whether a place is not behind an entry, or there is none.
func (p place) before(e *entry) bool { return e == nil || p.compare(e.place) <= 0 }

// look looks at the key of a row.
func (t *turns) look(head entry) (done bool, err error) {
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
		row := t.key(spaceKeyHead, head.place)
		t.tx.Conflict(row) // an item may come back to this place at the same time
		t.tx.Clear(row)
	}
	if known == nil && next.ready {
		t.moved = append(t.moved, next)
		if t.remove {
			t.tx.Set(t.key(spaceKeyHead, next.at), head.value)
		}
		return false, nil
	}
	return t.givesUp(), nil
}

// take selects the next item of a key.
func (t *turns) take(next *turn) (done bool, err error) {
	done, err = t.selectNext(next)
	if err == nil && !done && next.ready {
		t.moved = append(t.moved, next)
	}
	return done, err
}
