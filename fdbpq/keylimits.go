package fdbpq

import (
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

var (
	// ErrLeaseRequired: the leases of keys are counted, so a pop without one is refused.
	ErrLeaseRequired = errors.New("a lease is required where key_limit, key_order or the limit of a key is set")

	// ErrOnlyMin: pops visit keys, and know only the next item of each.
	ErrOnlyMin = errors.New("only pop.min and peek.min of all priorities work where items wait for others of their key, or keys take turns")
)

// MayPop returns why the queue refuses a pop, one without a lease if that is 0.
func (q Queue) MayPop(r kv.Reader, sel *Selection, lease time.Duration) error {
	s, err := q.readState(r)
	if err != nil || s == nil {
		return err
	}
	return s.refuses(sel, lease)
}

// MayPeek returns why the queue refuses a peek.
func (q Queue) MayPeek(r kv.Reader, sel *Selection) error {
	s, err := q.readState(r)
	if err != nil || s == nil {
		return err
	}
	return s.refusesEnd(sel)
}

func (s *queueState) refuses(sel *Selection, lease time.Duration) error {
	if lease == 0 && s.keyLimited() {
		return ErrLeaseRequired
	}
	return s.refusesEnd(sel)
}

// refusesEnd returns ErrOnlyMin for a selection that needs more than the next item of each
// key. The configuration decides, whether there are keys or not.
func (s *queueState) refusesEnd(sel *Selection) error {
	c := &s.config
	looks := c.limitsKeys() || c.KeyRate != (Rate{}) || c.Fair != "" || s.keysSet > 0
	if looks && (sel.End != Min || *sel.Band != AllPriorities) {
		return ErrOnlyMin
	}
	return nil
}

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
// delays keeps nobody waiting.
func (x keyLimits) holds(l *layout.Item) bool {
	return l.State == layout.StateLeased || l.State == layout.StateDelayed && l.Begun() && x.state.config.KeyOrder
}
