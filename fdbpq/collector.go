package fdbpq

import (
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// collector gathers the items of a selection. It is the basket of the orders of keys.
type collector struct {
	*queueRows
	sel     Selection
	expirer expirer // ends items past their TTL for a pop; a peek has no expirer: it skips them, and changes nothing
	copies  bool    // the selected items are copied to other rows
	more    bool    // another transaction goes on
	ahead   *readAhead

	items   []layout.Item
	bytes   int
	txSize  int
	expired int
	buckets buckets // of the queue
	token   int64   // see keyVisits
}

// expirer ends an item whose TTL is over.
type expirer interface{ expire(l *layout.Item) error }

// run collects the items of the selection in the order of the queue: by priority, by turns of keys, or by
// fair turns.
func (c *collector) run() (err error) {
	var next nextEntries
	switch {
	case c.ahead != nil:
		next = c.ahead.next
	case c.state.fairBuilt && c.state.keyed:
		c.token, err = takeFairTurns(c.visits())
		return err
	case c.state.takesTurns():
		c.token, err = takeTurns(c.visits())
		return err
	default:
		next = readyItems(c.name, c.front(c.state), c.state, c.sel.End, *c.sel.Band, c.state.config.Ties)
	}
	for len(c.items) < c.sel.Limit {
		entries, err := next(c.sel.Limit-len(c.items), c.sel.MaxBytes)
		if err != nil || len(entries) == 0 {
			return err
		}
		c.items = slices.Grow(c.items, len(entries))
		for _, entry := range entries {
			_, done, err := c.add(entry, 0)
			if err != nil || done {
				return err
			}
		}
	}
	return nil
}

// visits are the visits of keys for the collector, before the first one.
func (c *collector) visits() keyVisits {
	return keyVisits{
		queueRows: c.queueRows, basket: c, remove: c.removes(),
		limit: c.sel.Limit, maxBytes: c.sel.MaxBytes, visited: make(map[string]*turn),
	}
}

// removes reports whether the items are popped, and not only looked at.
func (c *collector) removes() bool { return c.expirer != nil }

func (c *collector) room() int {
	if c.more {
		return 0
	}
	return c.sel.Limit - len(c.items)
}

func (c *collector) cost() int64 { return c.items[len(c.items)-1].Costs() }

func (c *collector) stop() { c.more = len(c.items) == 0 }

func (c *collector) add(at entry, fence int64) (added, done bool, err error) {
	e, err := layout.ParseEnvelope(at.value, at.place)
	if err != nil {
		return false, false, err
	}
	if e.Expires != 0 {
		now, err := c.now()
		if err != nil {
			return false, false, err
		}
		if e.Expires <= now {
			done, err = c.skip(layout.ReadyItem(at.place, e))
			return false, done, err
		}
	}
	if len(c.items) > 0 && !c.sel.fits(len(c.items)+1, c.bytes+int(e.Size)) {
		return false, true, nil
	}
	if !c.carry(&e, c.copies) {
		return false, true, nil
	}
	e.KeyFence = fence // instead of that of its last lease
	c.bytes += int(e.Size)
	c.items = append(c.items, layout.ReadyItem(at.place, e))
	done = len(c.items) == c.sel.Limit
	if c.buckets.bound() {
		now, err := c.now()
		if err != nil {
			return false, false, err
		}
		c.buckets.take(e.Costs(), now)
		done = done || c.buckets.allow(now) == 0
	}
	return true, done, nil
}

// skip skips an item past its TTL, or ends it. One that would have to be marked as dead ends the pop where no item is written again.
func (c *collector) skip(l layout.Item) (done bool, err error) {
	if !c.removes() {
		return false, nil
	}
	if c.expired == maxExpired {
		c.stop()
		return true, nil
	}
	if c.state.config.DeadLetterExpired {
		if why := c.store.room.goesBack(); why != nil && len(c.items) == 0 {
			return true, why
		} else if why != nil {
			return true, nil
		}
	}
	if !c.carry(&l.Envelope, c.state.config.DeadLetterExpired) {
		return true, nil
	}
	c.expired++
	return false, c.expirer.expire(&l)
}

// carry adds what an item adds to the transaction, and reports whether it fits.
func (c *collector) carry(e *layout.Envelope, copied bool) bool {
	weight := itemTxSize(c.name, e, copied) + itemKeys*len(c.sel.PopID)
	if c.txSize > 0 && c.txSize+weight > txSizeBudget {
		c.stop()
		return false
	}
	c.txSize += weight
	return true
}

// maxExpired bounds how many items past their TTL one pop ends.
const maxExpired = 256

// bound bounds a selection by the queue's tokens. Without a token it returns the time until
// the next one comes.
func (c *collector) bound() (retry time.Duration, err error) {
	if !c.state.config.rates() {
		return 0, nil
	}
	if c.buckets, err = c.rates.readBoth(c.reader(c.removes()), c.state.config.buckets()); err != nil {
		return 0, err
	}
	now, err := c.now()
	if err != nil {
		return 0, err
	}
	if c.sel.Limit = min(c.sel.Limit, c.buckets.allow(now)); c.sel.Limit == 0 {
		retry = time.Duration(max(c.buckets.next()-now, 1))
	}
	return retry, nil
}

// spendTokens writes what the selected items have taken of the queue's tokens.
func (c *collector) spendTokens() error {
	return c.rates.writeUsed(c.state.config.buckets(), &c.buckets)
}

// The bounds of what one transaction of CollectGarbage reads.
const (
	garbageRows  = 500
	garbageBytes = 1 << 20
)

// garbage is a past generation of a queue.
type garbage struct{ *queueTx }

// clear clears rows of a past generation and reports whether it has cleared the last.
// Items with timers are cleared one by one, together with their timers, and all
// others by one range.
func (g garbage) clear() (done bool, err error) {
	n, err := countsOf(g.name, g.snapshot, g.state.generation)
	if err != nil {
		return false, err
	}
	for _, space := range []string{layout.SpaceLeased, layout.SpaceDelayed, layout.SpaceReady, layout.SpaceKeyed} {
		if (space == layout.SpaceReady || space == layout.SpaceKeyed) && n.Expiring == 0 {
			break
		}
		prefix := g.prefix(space)
		begin, end := tuple.Range(prefix)
		pairs, err := g.snapshot.Range(begin, end, kv.RangeOptions{Limit: garbageRows, MaxBytes: garbageBytes})
		if err != nil {
			return false, err
		}
		for _, pair := range pairs {
			g.clearItem(space, pair, len(prefix))
		}
		if len(pairs) > 0 {
			return false, g.flush()
		}
	}
	for _, kind := range layout.RowKinds {
		if kind.Lasts == layout.OfGeneration {
			begin := g.prefix(kind.Space) // a row of its own in some spaces, which tuple.Range leaves out
			_, end := tuple.Range(begin)
			g.tx.ClearRange(begin, end)
		}
	}
	return true, nil
}

// clearItem clears an item and its timers. The timers of an item that cannot be
// parsed are cleared when they fall due.
func (g garbage) clearItem(space string, pair kv.Pair, prefix int) {
	g.tx.Clear(pair.Key)
	p, err := layout.ParsePlace(pair.Key[prefix:])
	if err != nil {
		return
	}
	l, err := layout.ParseItem(space, pair.Value, p)
	if err != nil {
		return
	}
	g.timers.changed(l, &nowhere)
}
