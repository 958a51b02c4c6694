package fdbpq

import (
	"fmt"
	"math"
)

// A queue has a bound of items, max_length, and one of bytes, max_bytes. A push that exceeds
// one is refused, or evicts: then the least urgent ready items go, as far as eight will do.
// A push whose item the queue would grow by nevertheless is refused.

// ItemBytes is what each item counts of max_bytes besides its payload and headers: about what
// its rows take.
const ItemBytes = 512

// maxEvicted bounds the evictions of one push. It exceeds one so that a queue shrinks
// whose limit was lowered, and is small so that the transaction stays small.
const maxEvicted = 8

// maxBytes is the bound that holds for a queue, 0 for none.
func (s *Store) maxBytes(c *Config) int64 {
	if c.MaxBytes == 0 || s.maxQueueBytes == 0 {
		return max(c.MaxBytes, s.maxQueueBytes)
	}
	return min(c.MaxBytes, s.maxQueueBytes)
}

// limited reports whether a push depends on how much is in the queue.
func (s *Store) limited(c *Config) bool { return c.MaxLength > 0 || s.maxBytes(c) > 0 }

// amount is something of the content of a queue, or how much of it is too much.
type amount struct{ items, bytes int64 }

func amountOf(size int64) amount { return amount{1, size + ItemBytes} }

func (a amount) plus(b amount) amount { return amount{a.items + b.items, a.bytes + b.bytes} }

func (a amount) minus(b amount) amount { return amount{a.items - b.items, a.bytes - b.bytes} }

func (a amount) tooMuch() bool { return a.items > 0 || a.bytes > 0 }

// where is what is too much of that which grows.
func (a amount) where(grows amount) amount {
	if grows.items <= 0 {
		a.items = 0
	}
	if grows.bytes <= 0 {
		a.bytes = 0
	}
	return a
}

// excess is what a queue with so much has beyond its limits, negative where there is room.
func (qtx *queueTx) excess(n Counts) amount {
	over := amount{math.MinInt64 / 2, math.MinInt64 / 2}
	if most := qtx.state.config.MaxLength; most > 0 {
		over.items = n.Length() - most
	}
	if most := qtx.store.maxBytes(&qtx.state.config); most > 0 {
		over.bytes = n.Bytes + n.Length()*ItemBytes - most
	}
	return over
}

// tooFull is the reason to refuse an item with which the queue has too much, if it has.
func (qtx *queueTx) tooFull(over amount) error {
	most := qtx.store.maxBytes(&qtx.state.config)
	switch {
	case !over.tooMuch():
		return nil
	case over.items > 0:
		return fmt.Errorf("%w: its max_length is %d", ErrFull, qtx.state.config.MaxLength)
	case most != qtx.state.config.MaxBytes:
		return fmt.Errorf("%w: no queue here may have more than %d bytes, of which each item takes %d besides its own", ErrFull, most, ItemBytes)
	}
	return fmt.Errorf("%w: its max_bytes is %d, of which each item takes %d besides its own", ErrFull, most, ItemBytes)
}

// refuses is why a queue with so much takes no item, however small; nil: it may take one.
func (qtx *queueTx) refuses(n Counts) error {
	if qtx.state.config.Overflow == OverflowEvict {
		return nil
	}
	return qtx.tooFull(qtx.excess(n).plus(amountOf(0)))
}

// makeRoom chooses the items that are evicted for a new one, perhaps that one itself, or
// returns why it is refused. A delayed item is not ready, so it does not evict itself, and
// one that is handed over is not to be lost.
func (p *pusher) makeRoom(size, priority int64, delayed bool, h *handOver) (refused, err error) {
	p.victims, p.dropsItself = nil, false
	before, grows := p.excess(p.counted.with(&p.tally)), amountOf(size)
	if h != nil && h.from == p.queueTx {
		leaves := amountOf(h.item.size)
		before, grows = before.minus(leaves), grows.minus(leaves)
	}
	left := before.plus(amountOf(size))
	if !left.tooMuch() {
		return nil, nil
	}
	if p.state.config.Overflow != OverflowEvict {
		return p.tooFull(left.where(grows)), nil
	}
	var freed amount
	least := p.leastUrgent()
	next, more, err := p.nextVictim(least, h)
	for n := 0; n < maxEvicted && left.minus(freed).tooMuch() && err == nil; n++ {
		switch itself := !delayed && !p.dropsItself; {
		case itself && (!more || next.place.priority <= priority): // it is behind the older ones of its priority
			if p.dropsItself = true; !before.tooMuch() {
				p.victims, p.itself = []located{{}}, 0 // it is enough
				return h.keptFrom(p.tooFull(left)), nil
			}
			p.itself = len(p.victims)
			p.victims = append(p.victims, located{})
			freed = freed.plus(amountOf(size))
		case more:
			p.victims = append(p.victims, next)
			freed = freed.plus(amountOf(next.size))
			next, more, err = p.nextVictim(least, h)
		}
	}
	if err != nil {
		return nil, err
	}
	if p.dropsItself {
		return h.keptFrom(p.tooFull(left)), nil
	}
	return p.tooFull(left.minus(freed).where(grows.minus(freed))), nil
}

// leastUrgent scans the ready items from the one that is evicted first: the newest of the
// highest priority, whatever pop.max returns.
func (p *pusher) leastUrgent() nextEntries {
	return readyItems(p.name, p.snapshot, p.state, Max, AllPriorities, TiesNewest)
}

// nextVictim is the next item of those that may go. One that is handed over late may be ready
// again, and goes anyway.
func (p *pusher) nextVictim(least nextEntries, h *handOver) (v located, more bool, err error) {
	for {
		entries, err := least(1, 0)
		if err != nil || len(entries) == 0 {
			return located{}, false, err
		}
		at := entries[0].place
		if h != nil && h.from == p.queueTx && at == h.item.place {
			continue
		}
		e, err := parseEnvelope(entries[0].value, at)
		return readyItem(at, e), true, err
	}
}

// evict removes the items that were chosen, and marks the results of pushes whose item goes.
func (p *pusher) evict(results []Pushed) {
	if p.dropsItself {
		p.victims[p.itself] = p.added
	}
	for i := range p.victims {
		gone := &p.victims[i]
		id := gone.id(gone.place)
		p.change(gone, nil)
		p.emit(Event{Type: EventEvicted, ID: id, Priority: gone.place.priority, Deliveries: gone.deliveries()})
		for i := range results {
			if results[i].ID == id && results[i].Err == nil && !results[i].Duplicate {
				results[i].Evicted = true
			}
		}
	}
	p.victims, p.dropsItself = nil, false
}
