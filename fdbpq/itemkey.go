package fdbpq

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// An item can have a key: a customer, a tenant, a document. Its queue decides how many
// items of one key are leased at a time, how many are delivered in a time, and whether
// keys take turns. Pops never read past the items of a key that may have no more.
//
// So keys stand in an index of their own (spaceKeyHead), at the place of their first
// ready item. Three rules keep it:
//
//  1. A key with ready items has a row there, at the place of the first one or in front
//     of it, unless its leased items are as many as it may have, it waits for a token, or
//     it is paused.
//  2. Whoever ends such a lease, or such a pause, writes the row.
//  3. A key that waits for a token has a row that says until when (spaceKeyWaits). The
//     first pop after that writes the row.
//
// Rows too many do no harm: a pop that finds one looks at the key and clears or moves it.
// Pops depend on what they conclude from. A push writes the row blindly, unless another
// item of the key comes first. Then it relies on the row of that one, and depends on it:
// a pop that takes it at the same time does not see the new item. Settlements depend on
// nothing.

// MaxKey bounds the bytes of a key.
const MaxKey = 128

// ErrKey: the key is not as it should be.
var ErrKey = errors.New("key")

// CheckKey returns an error when a key is not as it should be.
func CheckKey(key string) error {
	switch {
	case len(key) > MaxKey:
		return fmt.Errorf("%w of %d bytes: allowed are %d", ErrKey, len(key), MaxKey)
	case !utf8.ValidString(key):
		return fmt.Errorf("%w %q: expected UTF-8", ErrKey, key)
	case strings.ContainsFunc(key, unicode.IsControl):
		return fmt.Errorf("%w %q: control characters are not allowed", ErrKey, key)
	case key != strings.TrimSpace(key):
		return fmt.Errorf("%w %q: spaces at its ends are not allowed", ErrKey, key)
	}
	return nil
}

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

// keyRow returns the prefix of the rows of a key in a space, with capacity for a place.
func (qtx *queueTx) keyRow(space, key string) []byte {
	b := make([]byte, 0, len(space)+len(qtx.name)+len(key)+64)
	return tuple.AppendBytes(qtx.appendPrefix(b, space), []byte(key))
}

func (qtx *queueTx) placeOfKey(space, key string, p place) []byte {
	return p.append(qtx.keyRow(space, key))
}

func (qtx *queueTx) heldRow(l *located) []byte {
	return append(qtx.keyRow(spaceKeyHeld, l.key), l.place.tail...)
}

// keyChanges are the keys whose items a transaction has changed, in the order in which
// it did.
type keyChanges struct {
	all   []*keyChange
	byKey map[string]*keyChange
}

type keyChange struct {
	key     string
	added   []place // of items that became ready
	removed []place // of items that are not ready any more
	letGo   int     // leases that ended, less those that began
	full    bool    // nobody needs to look at it before it may have more
	placed  bool    // its row in the fair order is written
}

func (c *keyChanges) of(key string) *keyChange {
	change := c.byKey[key]
	if change == nil {
		if c.byKey == nil {
			c.byKey = make(map[string]*keyChange)
		}
		change = &keyChange{key: key}
		c.byKey[key] = change
		c.all = append(c.all, change)
	}
	return change
}

// firstOfKey returns the place of the ready item that is handed out first of those of a
// key.
func (qtx *queueTx) firstOfKey(r kv.Reader, key string) (first place, ok bool, err error) {
	if qtx.state.config.KeyOrder {
		first, ok, err = qtx.firstIn(r, spaceKeyBegun, key, nil)
	}
	if !ok && err == nil {
		first, ok, err = qtx.firstIn(r, spaceKeyReady, key, nil)
	}
	return first, ok, err
}

// prefetchFirst says that firstOfKey is about to be asked for.
func (qtx *queueTx) prefetchFirst(key string) {
	spaces := []string{spaceKeyBegun, spaceKeyReady}
	if !qtx.state.config.KeyOrder {
		spaces = spaces[1:]
	}
	for _, space := range spaces {
		begin, end := rowsBehind(qtx.keyRow(space, key), nil)
		qtx.tx.PrefetchRange(begin, end, kv.RangeOptions{Limit: 1})
	}
}

// firstIn returns the first place of a key in a space, behind a place or from the
// beginning.
func (qtx *queueTx) firstIn(r kv.Reader, space, key string, behind *place) (first place, ok bool, err error) {
	prefix := qtx.keyRow(space, key)
	begin, end := rowsBehind(prefix, behind)
	rows, err := r.Range(begin, end, kv.RangeOptions{Limit: 1})
	if err != nil || len(rows) == 0 {
		return place{}, false, err
	}
	first, err = parsePlace(rows[0].Key[len(prefix):])
	return first, err == nil, err
}

// rowsBehind is the range of the rows of a key with a prefix, all or those behind a place.
func rowsBehind(prefix []byte, behind *place) (begin, end []byte) {
	begin, end = tuple.Range(prefix)
	if behind != nil {
		begin = append(behind.append(bytes.Clone(prefix)), 0)
	}
	return begin, end
}

// keyChanged keeps the rows of a key whose item changes.
func (qtx *queueTx) keyChanged(before, after *located) {
	was, is := before.state == StateReady, after.state == StateReady
	if !was || !is || before.place != after.place || before.begun() != after.begun() {
		if was {
			qtx.keyNotReady(before)
		}
		if is {
			qtx.keyReady(after)
		}
	}
	if before.state == StateDelayed && after.state == StateDelayed {
		return // it holds its key if it did, whatever the configuration is by now
	}
	switch was, is := before.mayHoldKey(), qtx.holdsKey(after); {
	case was && !is:
		qtx.tx.Clear(qtx.heldRow(before))
		qtx.keys.of(before.key).letGo++
	case is && !was:
		qtx.tx.Set(qtx.heldRow(after), nil)
		qtx.keys.of(after.key).letGo--
	}
}

// mayHoldKey reports whether the item may count as leased: whether a delayed one does, the
// configuration decided when its lease ended.
func (l *located) mayHoldKey() bool {
	return l.state == StateLeased || l.state == StateDelayed && l.begun()
}

// holdsKey reports whether an item counts as leased from now on. In order, one that is
// delayed after a lease keeps the others of its key waiting: it is not done. What a push
// delays keeps nobody waiting.
func (qtx *queueTx) holdsKey(l *located) bool {
	return l.state == StateLeased || l.state == StateDelayed && l.begun() && qtx.state.config.KeyOrder
}

func (qtx *queueTx) keyReady(l *located) {
	qtx.tx.Set(qtx.placeOfKey(spaceKeyReady, l.key, l.place), nil)
	if l.begun() {
		qtx.tx.Set(qtx.placeOfKey(spaceKeyBegun, l.key, l.place), nil)
	}
	change := qtx.keys.of(l.key)
	change.added = append(change.added, l.place)
}

func (qtx *queueTx) keyNotReady(l *located) {
	qtx.tx.Clear(qtx.placeOfKey(spaceKeyReady, l.key, l.place))
	if l.begun() {
		qtx.tx.Clear(qtx.placeOfKey(spaceKeyBegun, l.key, l.place))
	}
	change := qtx.keys.of(l.key)
	change.removed = append(change.removed, l.place)
}

// indexKeys writes the rows with which pops find the keys that the transaction changed.
func (qtx *queueTx) indexKeys() error {
	for _, change := range qtx.keys.all {
		if len(change.added) > 0 && len(change.removed) == 0 && change.letGo == 0 { // pops and settlements have said so before
			qtx.prefetchFirst(change.key)
		}
	}
	for _, change := range qtx.keys.all {
		if err := qtx.indexKey(change); err != nil {
			return err
		}
	}
	qtx.keys = keyChanges{}
	return nil
}

func (qtx *queueTx) indexKey(change *keyChange) error {
	if len(change.added)+len(change.removed) == 0 && (change.letGo <= 0 || !qtx.state.keyLimited()) {
		return nil
	}
	// Without a dependency on the item that is left, two transactions could each leave
	// the one that the other takes.
	r := qtx.snapshot
	if len(change.removed) > 0 {
		r = qtx.tx
	}
	first, ok, err := qtx.firstOfKey(r, change.key)
	if err != nil {
		return err
	}
	for _, p := range change.removed {
		if !ok || p != first {
			qtx.tx.Clear(qtx.key(spaceKeyHead, p))
		}
	}
	switch {
	case !ok && len(change.removed) > 0:
		return qtx.keyGone(change)
	case !ok:
		return nil
	case len(change.removed) == 0 && change.letGo <= 0 && !slices.Contains(change.added, first):
		qtx.tx.Conflict(qtx.placeOfKey(spaceKeyReady, change.key, first))
		return nil
	}
	if !change.full {
		qtx.tx.Set(qtx.key(spaceKeyHead, first), []byte(change.key))
		if !change.placed {
			qtx.placeFair(first, change.key)
		}
	}
	if change.letGo > 0 && qtx.state.keyLimited() {
		qtx.arrived = true
	}
	return nil
}

// keyGone forgets what counts for a key while it has ready items: it has none any more. A
// pop forgets its row.
func (qtx *queueTx) keyGone(change *keyChange) error {
	if qtx.state.config.Fair == "" {
		return nil
	}
	if !change.placed {
		qtx.placeFair(change.removed[0], change.key)
	}
	weight, err := qtx.tx.Get(qtx.weightRow(change.key))
	if err == nil && weight != nil {
		qtx.tx.Clear(qtx.weightRow(change.key))
	}
	return err
}

// findKey has pops look at a key.
func (qtx *queueTx) findKey(first place, key string) {
	qtx.tx.Set(qtx.key(spaceKeyHead, first), []byte(key))
	qtx.placeFair(first, key)
}
