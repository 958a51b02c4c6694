package fdbpq

import (
	"fmt"
	"math"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
)

// A queue has a bound of items, max_length, and a bound of bytes, max_bytes. A push that exceeds
// a bound is refused, or evicts the least urgent ready items, up to eight. If these make no
// room for its item, the push is refused nevertheless.

// ItemBytes is what each item counts of max_bytes besides its payload and headers: about what
// its rows take, unless its unique value, key, attempts and death are long. What they take beyond that, its overhead,
// counts, too.
const ItemBytes = 512

// amount counts items and bytes.
type amount struct{ items, bytes int64 }

func amountOf(size int64) amount { return amount{1, size + ItemBytes} }

// amountOfItem is what an item of the store counts.
func amountOfItem(l *layout.Item) amount { return amountOf(l.Size + l.Overhead) }

func (a amount) plus(b amount) amount { return amount{a.items + b.items, a.bytes + b.bytes} }

func (a amount) minus(b amount) amount { return amount{a.items - b.items, a.bytes - b.bytes} }

func (a amount) tooMuch() bool { return a.items > 0 || a.bytes > 0 }

// where keeps the excess of what grows.
func (a amount) where(grows amount) amount {
	if grows.items <= 0 {
		a.items = 0
	}
	if grows.bytes <= 0 {
		a.bytes = 0
	}
	return a
}

// limitedBytes is what max_bytes bounds.
func limitedBytes(n Counts) int64 { return n.Bytes + n.Length()*ItemBytes + n.Overhead }

// capacity is how much may be in a queue, and how much is.
type capacity struct{ *queueRows }

// countsSoFar are the counters of the queue, with what the Work has not written yet. They are read by snapshot, so
// concurrent transactions may exceed a limit.
func (c capacity) countsSoFar() (Counts, error) {
	if c.stored == nil {
		stored, err := storedTally(c.name, c.snapshot, c.state.generation, c.store.countersOf(&c.state.config))
		if err != nil {
			return Counts{}, err
		}
		c.stored = &stored
	}
	return Counts{}.with(c.stored).with(&c.tally), nil
}

// excess is how far such counts exceed the limits of the queue, negative where there is room.
func (c capacity) excess(n Counts) amount {
	over := amount{math.MinInt64 / 2, math.MinInt64 / 2}
	if most := c.state.config.MaxLength; most > 0 {
		over.items = n.Length() - most
	}
	if most := c.store.maxBytes(&c.state.config); most > 0 {
		over.bytes = limitedBytes(n) - most
	}
	return over
}

// tooFull is the reason to refuse an item with which the queue exceeds a limit by over; nil within all limits.
func (c capacity) tooFull(over amount) error {
	most := c.store.maxBytes(&c.state.config)
	switch {
	case !over.tooMuch():
		return nil
	case over.items > 0:
		return fmt.Errorf("%w: its max_length is %d", ErrFull, c.state.config.MaxLength)
	case most != c.state.config.MaxBytes:
		return fmt.Errorf("%w: no queue here may have more than %d bytes, of which each item takes %d besides its own", ErrFull, most, ItemBytes)
	}
	return fmt.Errorf("%w: its max_bytes is %d, of which each item takes %d besides its own", ErrFull, most, ItemBytes)
}

// refuses is the reason why a queue with such counts takes no item, however small; nil where a small item has room.
func (c capacity) refuses(n Counts) error {
	if c.state.config.Overflow == OverflowEvict {
		return nil
	}
	return c.tooFull(c.excess(n).plus(amountOf(0)))
}

// crowded reports whether the queue, or its owner, has as many bytes as it may have. Then rows that only explain items, such as
// attempts, do not grow.
func (c capacity) crowded() (bool, error) {
	if c.store.room.crowded(c.name) {
		return true, nil
	}
	if c.store.maxBytes(&c.state.config) == 0 {
		return false, nil
	}
	n, err := c.countsSoFar()
	return c.excess(n).bytes > 0, err
}

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
