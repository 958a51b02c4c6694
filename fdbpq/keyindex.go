package fdbpq

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// An item can have a key: a customer, a tenant, a document. Its queue decides how many
// items of one key are leased at a time, how many are delivered in a time, and whether
// keys take turns. Pops never read past the items of a key that may have no more.
//
// So keys stand in an index of their own (layout.SpaceKeyHead), at the place of their first
// ready item. Three rules keep the index:
//
//  1. A key with ready items has a row there, at the place of the first item or in front
//     of it, unless the key has as many leased items as it may have, waits for a token, or
//     is paused.
//  2. Whoever ends such a lease, or such a pause, writes the row.
//  3. A key that waits for a token has a row with the time of the token
//     (layout.SpaceKeyWaits). The first pop after that time writes the row in the index.
//
// Rows too many do no harm: a pop that finds one visits the key, and clears or moves the row.
// Pops depend on all rows from which they conclude. A push writes the row blindly, unless
// another item of the key comes first. Then the push relies on the row of that item, and
// depends on it: a pop that takes that item at the same time does not see the new one. Whoever
// ends a counted lease depends on which item is first: a pop at the same time, for which the key
// has no room yet, may clear the row of an item that was pushed meanwhile.

// keyIndex reads and writes the rows with which pops find keys.
type keyIndex struct{ *queueRows }

func (x keyIndex) placeRow(space, key string, p layout.Place) []byte {
	return p.Append(x.rowsOfKey(space, key))
}

// first returns the place of the ready item of a key that pops hand out first.
func (x keyIndex) first(r kv.Reader, key string) (first layout.Place, ok bool, err error) {
	if x.state.config.KeyOrder {
		first, ok, err = x.firstIn(r, layout.SpaceKeyBegun, key, nil)
	}
	if !ok && err == nil {
		first, ok, err = x.firstIn(r, layout.SpaceKeyReady, key, nil)
	}
	return first, ok, err
}

// prefetch announces the read of first.
func (x keyIndex) prefetch(key string) {
	spaces := []string{layout.SpaceKeyBegun, layout.SpaceKeyReady}
	if !x.state.config.KeyOrder {
		spaces = spaces[1:]
	}
	for _, space := range spaces {
		begin, end := rowsBehind(x.rowsOfKey(space, key), nil)
		x.tx.PrefetchRange(begin, end, kv.RangeOptions{Limit: 1})
	}
}

// firstIn returns the first place of a key in a space, behind a place; nil: the first of all.
func (x keyIndex) firstIn(r kv.Reader, space, key string, behind *layout.Place) (first layout.Place, ok bool, err error) {
	prefix := x.rowsOfKey(space, key)
	begin, end := rowsBehind(prefix, behind)
	rows, err := r.Range(begin, end, kv.RangeOptions{Limit: 1})
	if err != nil || len(rows) == 0 {
		return layout.Place{}, false, err
	}
	first, err = layout.ParsePlace(rows[0].Key[len(prefix):])
	return first, err == nil, err
}

// rowsBehind is the range of rows with the prefix of a key, behind a place; nil: all of them.
func rowsBehind(prefix []byte, behind *layout.Place) (begin, end []byte) {
	begin, end = tuple.Range(prefix)
	if behind != nil {
		begin = append(behind.Append(bytes.Clone(prefix)), 0)
	}
	return begin, end
}

// changed keeps the rows of a key whose item changes.
func (x keyIndex) changed(before, after *layout.Item) {
	was, is := before.State == layout.StateReady, after.State == layout.StateReady
	if !was || !is || before.Place != after.Place || before.Begun() != after.Begun() {
		if was {
			x.notReady(before)
		}
		if is {
			x.ready(after)
		}
	}
}

func (x keyIndex) ready(l *layout.Item) {
	x.tx.Set(x.placeRow(layout.SpaceKeyReady, l.Key, l.Place), nil)
	if l.Begun() {
		x.tx.Set(x.placeRow(layout.SpaceKeyBegun, l.Key, l.Place), nil)
	}
	change := x.keys.of(l.Key)
	change.added = append(change.added, l.Place)
}

func (x keyIndex) notReady(l *layout.Item) {
	x.tx.Clear(x.placeRow(layout.SpaceKeyReady, l.Key, l.Place))
	if l.Begun() {
		x.tx.Clear(x.placeRow(layout.SpaceKeyBegun, l.Key, l.Place))
	}
	change := x.keys.of(l.Key)
	change.removed = append(change.removed, l.Place)
}

// flush writes the rows with which pops find the keys that the transaction changed.
func (x keyIndex) flush() error {
	for _, change := range x.keys.all {
		if len(change.added) > 0 && len(change.removed) == 0 && change.letGo == 0 { // pops and settlements have said so before
			x.prefetch(change.key)
		}
	}
	for _, change := range x.keys.all {
		if err := x.flushKey(change); err != nil {
			return err
		}
	}
	x.keys = keyChanges{}
	return nil
}

func (x keyIndex) flushKey(change *keyChange) error {
	if len(change.added)+len(change.removed) == 0 && (change.letGo <= 0 || !x.state.keyLimited()) {
		return nil
	}
	// Without a dependency on the item that is left, two transactions could each leave
	// the item that the other one takes, and an ACK that frees the key could miss an item
	// whose index row a pop is clearing.
	r := x.snapshot
	if len(change.removed) > 0 || change.letGo > 0 {
		r = x.tx
	}
	first, ok, err := x.first(r, change.key)
	if err != nil {
		return err
	}
	for _, p := range change.removed {
		if !ok || p != first {
			x.tx.Clear(x.key(layout.SpaceKeyHead, p))
		}
	}
	switch {
	case !ok && len(change.removed) > 0:
		return x.gone(change)
	case !ok:
		return nil
	case len(change.removed) == 0 && change.letGo <= 0 && !slices.Contains(change.added, first):
		x.tx.Conflict(x.placeRow(layout.SpaceKeyReady, change.key, first))
		return nil
	}
	if !change.full {
		x.tx.Set(x.key(layout.SpaceKeyHead, first), []byte(change.key))
		if !change.placed {
			x.fairIndex.place(first, change.key)
		}
	}
	if change.letGo > 0 && x.state.keyLimited() {
		x.arrive()
	}
	return nil
}

// gone clears what a key without ready items needs no more: its weight, and what it owes. A pop that looks at its
// row in the fair order clears that row.
func (x keyIndex) gone(change *keyChange) error {
	if x.state.config.Fair == "" {
		return nil
	}
	if !change.placed {
		x.fairIndex.place(change.removed[0], change.key)
	}
	x.fairIndex.forgive(change.key, change.removed)
	weight, err := x.tx.Get(x.fairIndex.weightRow(change.key))
	if err == nil && weight != nil {
		x.tx.Clear(x.fairIndex.weightRow(change.key))
	}
	return err
}

// find writes the rows with which pops find a key, at the place of its first item.
func (x keyIndex) find(first layout.Place, key string) {
	x.tx.Set(x.key(layout.SpaceKeyHead, first), []byte(key))
	x.fairIndex.place(first, key)
}

// keysAtOnce bounds for how many keys one transaction writes rows after a change of key_limit
// or key_order. Timers write those of the other keys.
const keysAtOnce = 64

// rebuildAll writes the rows of all keys with ready items: another limit may free them, and
// another order has another first item. A timer writes all rows once more: until this
// transaction commits, pops clear rows by the former limit.
func (x keyIndex) rebuildAll() error {
	if _, _, err := x.findNext(""); err != nil {
		return err
	}
	return x.timers.atOnce(layout.TimerKeys, "")
}

// rebuild writes the rows of the keys with ready items behind a key, by a timer if they are many.
func (x keyIndex) rebuild(behind string) error {
	last, done, err := x.findNext(behind)
	if err != nil || done {
		return err
	}
	return x.timers.atOnce(layout.TimerKeys, last)
}

// findNext writes the rows of the next keys with ready items behind a key, and returns the last
// of these keys. done: no key is left.
func (x keyIndex) findNext(behind string) (last string, done bool, err error) {
	space := layout.GenerationPrefix(layout.SpaceKeyReady, x.name, x.state.generation)
	begin, end := tuple.Range(space)
	if behind != "" {
		begin = tuple.PrefixEnd(x.rowsOfKey(layout.SpaceKeyReady, behind))
	}
	for range keysAtOnce {
		rows, err := x.snapshot.Range(begin, end, kv.RangeOptions{Limit: 1})
		if err != nil || len(rows) == 0 {
			return "", err == nil, err
		}
		key, _, err := tuple.ConsumeBytes(rows[0].Key[len(space):])
		if err != nil {
			return "", false, fmt.Errorf("damaged row of a key: %w", err)
		}
		behind = string(key)
		first, ok, err := x.first(x.snapshot, behind)
		if err != nil {
			return "", false, err
		}
		if ok {
			x.find(first, behind)
			x.arrive()
		}
		x.found.add(x.name)
		begin = tuple.PrefixEnd(x.rowsOfKey(layout.SpaceKeyReady, behind))
	}
	return behind, false, nil
}

// due goes on with rebuild. After a purge it finds other keys, which does no harm.
func (x keyIndex) due(t layout.Timer) error {
	if !x.there() {
		return nil
	}
	return x.rebuild(t.ID)
}

// lookAgain writes the rows of a key that may have room again. The reader is the transaction
// itself, unless pops that clear the key's row conflict with this transaction anyway.
func (x keyIndex) lookAgain(r kv.Reader, key string) error {
	first, ok, err := x.first(r, key)
	if err != nil || !ok {
		return err
	}
	x.find(first, key)
	x.arrive()
	return nil
}
