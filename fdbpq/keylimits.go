package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// keyLimits counts the leased items of each key.
type keyLimits struct{ *queueRows }

// held counts the leased items of a key, and the items that wait between two leases in order, up
// to a number.
func (x keyLimits) held(r kv.Reader, key string, most int) (int, error) {
	begin, end := x.rows(key)
	held, err := r.Range(begin, end, kv.RangeOptions{Limit: most})
	return len(held), err
}

// rows is the range of the rows of a key's leases.
func (x keyLimits) rows(key string) (begin, end []byte) {
	return tuple.Range(x.rowsOfKey(layout.SpaceKeyHeld, key))
}

// changed writes or clears the row that counts an item as leased.
func (x keyLimits) changed(before, after *layout.Item) {
	if before.State == layout.StateDelayed && after.State == layout.StateDelayed {
		return // it holds its key if it did, whatever the configuration is by now
	}
	switch was, is := before.MayHoldKey(), x.holds(after); {
	case was && !is:
		x.tx.Clear(x.row(before))
		x.keys.of(before.Key).letGo++
	case is && !was:
		x.tx.Set(x.row(after), nil)
		x.keys.of(after.Key).letGo--
	}
}

func (x keyLimits) row(l *layout.Item) []byte {
	return append(x.rowsOfKey(layout.SpaceKeyHeld, l.Key), l.Place.Suffix...)
}

// holds reports whether an item counts as leased from now on. In order, an item that is delayed
// after a lease keeps the others of its key waiting: it is not done. An item that its push
// delays keeps no other item waiting.
func (x keyLimits) holds(l *layout.Item) bool {
	return l.State == layout.StateLeased && !l.Dying() || l.State == layout.StateDelayed && l.Begun() && x.state.config.KeyOrder
}
