package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

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
