package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/internal/layout"

// maxEvicted bounds the evictions of one push. It exceeds one so that a queue shrinks
// whose limit was lowered, and is small so that the transaction stays small.
const maxEvicted = 8

// eviction has the items that leave a full queue for a new item.
type eviction struct {
	victims     []layout.Item
	dropsItself bool // the new item is a victim, too
	itself      int  // its number among them
}

// choose chooses the items that are evicted for a new one, perhaps that one itself, or
// returns why it is refused. A delayed item is not ready, so it does not evict itself, and
// one that is handed over is not to be lost.
func (ev *eviction) choose(p *pusher, takes amount, priority int64, delayed bool, h *handOver) (refused, err error) {
	ev.victims, ev.dropsItself = nil, false
	before, grows := p.capacity.excess(p.counted.with(&p.tally)), takes
	if h != nil && h.from == p.queueTx {
		leaves := amountOfItem(h.item)
		before, grows = before.minus(leaves), grows.minus(leaves)
	}
	left := before.plus(takes)
	if !left.tooMuch() {
		return nil, nil
	}
	if p.state.config.Overflow != OverflowEvict {
		return p.capacity.tooFull(left.where(grows)), nil
	}
	var freed amount
	// The newest of the highest priority goes first, whatever pop.max returns.
	least := readyItems(p.name, p.snapshot, p.state, Max, AllPriorities, TiesNewest)
	next, more, err := nextVictim(p.queueTx, least, h)
	for n := 0; n < maxEvicted && left.minus(freed).tooMuch() && err == nil; n++ {
		switch itself := !delayed && !ev.dropsItself; {
		case itself && (!more || next.Place.Priority <= priority): // it is behind the older ones of its priority
			if ev.dropsItself = true; !before.tooMuch() {
				ev.victims, ev.itself = []layout.Item{{}}, 0 // it is enough
				return h.keptFrom(p.capacity.tooFull(left)), nil
			}
			ev.itself = len(ev.victims)
			ev.victims = append(ev.victims, layout.Item{})
			freed = freed.plus(takes)
		case more:
			ev.victims = append(ev.victims, next)
			freed = freed.plus(amountOfItem(&next))
			next, more, err = nextVictim(p.queueTx, least, h)
		}
	}
	if err != nil {
		return nil, err
	}
	if ev.dropsItself {
		return h.keptFrom(p.capacity.tooFull(left)), nil
	}
	return p.capacity.tooFull(left.minus(freed).where(grows.minus(freed))), nil
}

// nextVictim is the next item of those that may go. One that is handed over late may be ready
// again, and goes anyway.
func nextVictim(qtx *queueTx, least nextEntries, h *handOver) (v layout.Item, more bool, err error) {
	for {
		entries, err := least(1, 0)
		if err != nil || len(entries) == 0 {
			return layout.Item{}, false, err
		}
		at := entries[0].place
		if h != nil && h.from == qtx && at == h.item.Place {
			continue
		}
		e, err := layout.ParseEnvelope(entries[0].value, at)
		return layout.ReadyItem(at, e), true, err
	}
}

// run removes the items that were chosen, and marks the results of pushes whose item goes.
func (ev *eviction) run(p *pusher, results []Pushed) error {
	if ev.dropsItself {
		ev.victims[ev.itself] = p.added
	}
	for i := range ev.victims {
		gone := &ev.victims[i]
		id := idOf(gone)
		if err := p.end(gone, finish{how: FinishEvicted}); err != nil {
			return err
		}
		p.emit(Event{Type: EventEvicted, ID: id, Priority: gone.Place.Priority, Deliveries: gone.Deliveries()})
		for i := range results {
			if results[i].ID == id && results[i].Err == nil && !results[i].Duplicate {
				results[i].Evicted = true
			}
		}
	}
	ev.victims, ev.dropsItself = nil, false
	return nil
}
