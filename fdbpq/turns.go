package fdbpq

import (
	"fmt"
	"math"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// basket takes the items that an order selects, in that order.
type basket interface {
	// room is how many items it still takes: 0 where another transaction goes on.
	room() int

	// add takes a ready item with the fence of its key, which may be 0, or passes an item whose TTL is
	// over. done: it takes no further item.
	add(at entry, fence int64) (added, done bool, err error)

	// cost is that of the item that was added last.
	cost() int64

	// stop ends the selection early. If it has no item, another transaction goes on.
	stop()
}

// keyVisits caches what a pop or a peek has read about each key.
type keyVisits struct {
	*queueRows
	basket   basket
	remove   bool // a pop; a peek has no changes and no dependencies
	limit    int  // items that it selects at most
	maxBytes int  // that it reads at a time

	visited map[string]*turn
	count   int   // of visited keys that gave no item
	token   int64 // store time of the first token for which a key waits without a row; 0: no key does
}

// turn is a key that a pop has visited.
type turn struct {
	key      string
	settings KeySettings
	leases   int // that the key may have besides its present leases
	buckets  buckets
	tokens   int          // deliveries that its buckets allow
	at       layout.Place // of its next item
	ready    bool         // it has a next item, which the pop may take
	fence    int64        // of its next lease; 0: several of its items may be leased at a time

	begun, fresh *layout.Place // items up to these were selected or passed
}

// givesUp counts a key that gave no item, and reports whether the pop or peek ends with it.
func (v *keyVisits) givesUp() bool {
	v.count++
	if !v.remove {
		return v.count >= maxPeekVisits
	}
	if v.count < maxKeyVisits {
		return false
	}
	v.basket.stop()
	return true
}

// untilDone takes steps until one is the last, or the basket has no room.
func (v *keyVisits) untilDone(step func() (done bool, err error)) error {
	for v.basket.room() > 0 {
		done, err := step()
		if err != nil || done {
			return err
		}
	}
	return nil
}

// allowed is how many items the key may have now.
func (t *turn) allowed() int { return min(t.leases, t.tokens) }

// visit reads how many items a key may have, and its next item. Whoever gives the key room again, or
// delivers another item of it, changes rows that visit has read.
func (v *keyVisits) visit(key string) (*turn, error) {
	t := &turn{key: key, leases: math.MaxInt, tokens: math.MaxInt}
	v.visited[key] = t
	config := &v.state.config
	var err error
	if t.settings, err = v.settings.of(v.reader(v.remove), key); err != nil {
		return nil, err
	}
	if t.settings.paused() {
		t.leases = 0
		return t, nil
	}
	if limit := int(t.settings.limit(config)); limit > 0 {
		held, err := v.keyLimits.held(v.reader(v.remove), key, limit)
		if err != nil {
			return nil, err
		}
		if t.leases = limit - held; t.leases == 0 {
			return t, nil // who ends one of the leases has it looked at again
		}
		if limit == 1 && v.remove {
			if t.fence, err = v.fences.next(key); err != nil {
				return nil, err
			}
		}
	}
	if of := t.settings.buckets(key, config); of[ofDeliveries].rate != (Rate{}) || of[ofCost].rate != (Rate{}) {
		now, err := v.now()
		if err != nil {
			return nil, err
		}
		if t.buckets, err = v.rates.readBoth(v.reader(v.remove), of); err != nil {
			return nil, err
		}
		none, err := v.rates.noRoom(&t.buckets)
		if err != nil {
			return nil, err
		}
		if none { // look again when a timer has cleared some
			t.buckets.close(now + forgetEvery(layout.TimerTokens))
		}
		t.tokens = t.buckets.allow(now)
	}
	return t, v.advance(t)
}

// prefetch announces visits of the keys of rows, and that the pop takes their items.
func (v *keyVisits) prefetch(heads []entry) {
	for i := range heads {
		key := string(heads[i].value)
		v.prefetchKey(key)
		v.prefetchItem(key, heads[i].place)
	}
}

// prefetchKey announces the visit of a key.
func (v *keyVisits) prefetchKey(key string) {
	if !v.remove || v.visited[key] != nil {
		return
	}
	var unset KeySettings
	if v.state.keysSet > 0 {
		v.tx.Prefetch(settingsRow(v.name, key))
	}
	limit := int(unset.limit(&v.state.config))
	if limit > 0 {
		begin, end := v.keyLimits.rows(key)
		v.tx.PrefetchRange(begin, end, kv.RangeOptions{Limit: limit})
	}
	if limit == 1 {
		v.tx.Prefetch(keyFenceRow(v.name, key))
	}
	for _, of := range unset.buckets(key, &v.state.config) {
		if of.rate != (Rate{}) {
			v.tx.Prefetch(v.rates.row(of), layout.CounterKey(v.name, 0, layout.CounterOwing))
		}
	}
	v.keyIndex.prefetch(key)
}

// prefetchItem announces that the pop takes the item of a key at a place, and looks for the next item.
func (v *keyVisits) prefetchItem(key string, at layout.Place) {
	if !v.remove || v.visited[key] != nil && v.visited[key].leases == 0 {
		return
	}
	begin, end := rowsBehind(v.rowsOfKey(layout.SpaceKeyReady, key), &at)
	v.tx.PrefetchRange(begin, end, kv.RangeOptions{Limit: 1})
	v.tx.Prefetch(v.key(layout.SpaceKeyed, at))
}

// advance finds the next item of a key.
func (v *keyVisits) advance(t *turn) (err error) {
	if t.ready = false; t.leases == 0 {
		return nil
	}
	found := false
	if v.state.config.KeyOrder {
		if t.at, found, err = v.keyIndex.firstIn(v.snapshot, layout.SpaceKeyBegun, t.key, t.begun); err != nil {
			return err
		}
		if found {
			t.begun = &layout.Place{Priority: t.at.Priority, Suffix: t.at.Suffix}
		}
	}
	if !found {
		if t.at, found, err = v.keyIndex.firstIn(v.snapshot, layout.SpaceKeyReady, t.key, t.fresh); err != nil {
			return err
		}
		t.fresh = &layout.Place{Priority: t.at.Priority, Suffix: t.at.Suffix}
	}
	if found && t.tokens == 0 {
		if next := t.buckets.next(); v.remove {
			v.tx.Set(keyWaitsRow(v.name, next, t.key), nil)
		} else if v.token == 0 || next < v.token {
			v.token = next
		}
	}
	t.ready = found && t.tokens > 0
	return nil
}

// selectNext selects the next item of a key, or passes it if its TTL is over. It reports
// whether it has selected the item, and whether that was the last item of the selection.
func (v *keyVisits) selectNext(t *turn) (added, done bool, err error) {
	row, err := v.snapshot.Get(v.key(layout.SpaceKeyed, t.at))
	if err != nil {
		return false, false, err
	}
	if row == nil {
		return false, false, fmt.Errorf("damaged key %q: its first ready item is missing", t.key)
	}
	added, done, err = v.basket.add(entry{place: t.at, value: row}, t.fence)
	if err != nil || done && !added {
		return added, done, err // it does not fit
	}
	if added {
		t.leases--
		if t.fence > 0 {
			if err := v.fences.keep(t.key, t.fence); err != nil {
				return false, false, err
			}
		}
		if t.buckets.bound() {
			now, err := v.now()
			if err != nil {
				return false, false, err
			}
			t.buckets.take(v.basket.cost(), now)
			t.tokens = t.buckets.allow(now)
		}
	}
	if err := v.advance(t); err != nil {
		return false, false, err
	}
	if v.remove && t.allowed() == 0 {
		v.keys.of(t.key).full = true
	}
	return added, done, nil
}

// spend writes the tokens that the pop has taken.
func (v *keyVisits) spend() error {
	if !v.remove {
		return nil
	}
	for key, t := range v.visited {
		if err := v.rates.writeUsed(t.settings.buckets(key, &v.state.config), &t.buckets); err != nil {
			return err
		}
	}
	return nil
}

// refilled visits the keys whose wait for a token is over, and returns those with an item to take.
func (v *keyVisits) refilled() ([]*turn, error) {
	if !v.state.keysMayWait() {
		return nil, nil
	}
	now, err := v.now()
	if err != nil {
		return nil, err
	}
	keys, more, err := v.keyWaits.over(now, v.remove)
	if err != nil {
		return nil, err
	}
	var ready []*turn
	for _, key := range keys {
		if v.visited[key] != nil {
			continue
		}
		t, err := v.visit(key)
		if err != nil {
			return nil, err
		}
		if t.ready {
			ready = append(ready, t)
			if v.remove {
				v.keyIndex.find(t.at, key)
			}
		}
	}
	if v.remove && more {
		v.basket.stop() // others may come first
	}
	return ready, nil
}

// turnOrder selects items in the order of the queue, where items may have to wait for others of
// their key. It merges the items without a key and the rows of the key index.
type turnOrder struct {
	keyVisits
	plain source[entry]
	heads source[entry]
	moved []*turn // keys with a next item that is behind their row, or behind an item that was selected
}

// takeTurns returns the store time of the first token that a key waits for without a row, 0 if no key does.
func takeTurns(v keyVisits) (token int64, err error) {
	t := turnOrder{keyVisits: v}
	t.plain.next = scanOf(t.name, t.front(t.state), t.state, layout.SpaceReady, Min, AllPriorities, "").next
	heads := scanOf(t.name, t.front(t.state), t.state, layout.SpaceKeyHead, Min, AllPriorities, "")
	t.heads.next = func(limit, maxBytes int) ([]entry, error) {
		entries, err := heads.next(limit, maxBytes)
		t.prefetch(entries)
		return entries, err
	}
	if t.moved, err = t.refilled(); err != nil {
		return 0, err
	}
	if err := t.untilDone(t.step); err != nil {
		return 0, err
	}
	return t.token, t.spend()
}

// step takes the next item without a key, or visits the next key. done: no item and no key is left.
func (t *turnOrder) step() (done bool, err error) {
	limit := t.basket.room()
	plain, err := t.plain.first(limit, t.maxBytes)
	if err != nil {
		return false, err
	}
	head, err := t.heads.first(limit, t.maxBytes)
	if err != nil {
		return false, err
	}
	slices.SortFunc(t.moved, func(a, b *turn) int { return a.at.Compare(b.at) })
	switch {
	case len(t.moved) > 0 && before(t.moved[0].at, plain) && before(t.moved[0].at, head):
		next := t.moved[0]
		t.moved = t.moved[1:]
		return t.take(next)
	case head != nil && before(head.place, plain):
		return t.visitKey(t.heads.take())
	case plain != nil:
		_, done, err = t.basket.add(t.plain.take(), 0)
		return done, err
	}
	return true, nil
}

// before reports whether a place is not behind an entry. All places are before the end, which is nil.
func before(p layout.Place, e *entry) bool { return e == nil || p.Compare(e.place) <= 0 }

// visitKey visits the key of a row, and moves or clears a row that is not at the next item.
func (t *turnOrder) visitKey(head entry) (done bool, err error) {
	key := string(head.value)
	known := t.visited[key]
	next := known
	if known == nil {
		if next, err = t.visit(key); err != nil {
			return false, err
		}
	}
	if known == nil && next.ready && next.at == head.place {
		return t.take(next)
	}
	if known != nil && slices.Contains(t.moved, known) && known.at == head.place {
		return false, nil // the row is at the next item already
	}
	if t.remove {
		row := t.key(layout.SpaceKeyHead, head.place)
		t.tx.Conflict(row) // an item may come back to this place at the same time
		t.tx.Clear(row)
	}
	if known == nil && next.ready {
		t.moved = append(t.moved, next)
		if t.remove {
			t.tx.Set(t.key(layout.SpaceKeyHead, next.at), head.value)
		}
		return false, nil
	}
	return t.givesUp(), nil
}

// take selects the next item of a key.
func (t *turnOrder) take(next *turn) (done bool, err error) {
	_, done, err = t.selectNext(next)
	if err == nil && !done && next.ready {
		t.moved = append(t.moved, next)
	}
	return done, err
}
