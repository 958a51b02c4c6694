package fdbpq

import (
	"fmt"
	"math"
)

// A queue has a bound of items, max_length, and a bound of bytes, max_bytes. A push that exceeds
// a bound is refused, or evicts the least urgent ready items, up to eight. If these make no
// room for its item, the push is refused nevertheless.

// ItemBytes is what each item counts of max_bytes besides its payload and headers: about what
// its rows take.
const ItemBytes = 512

// maxBytes is the bound that holds for a queue, 0 for none.
func (s *Store) maxBytes(c *Config) int64 {
	if c.MaxBytes == 0 || s.maxQueueBytes == 0 {
		return max(c.MaxBytes, s.maxQueueBytes)
	}
	return min(c.MaxBytes, s.maxQueueBytes)
}

// limited reports whether a push depends on how much is in the queue.
func (s *Store) limited(c *Config) bool { return c.MaxLength > 0 || s.maxBytes(c) > 0 }

// amount counts items and bytes.
type amount struct{ items, bytes int64 }

func amountOf(size int64) amount { return amount{1, size + ItemBytes} }

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

// excess is how far such counts exceed the limits of the queue, negative where there is room.
func (q *queueRows) excess(n Counts) amount {
	over := amount{math.MinInt64 / 2, math.MinInt64 / 2}
	if most := q.state.config.MaxLength; most > 0 {
		over.items = n.Length() - most
	}
	if most := q.store.maxBytes(&q.state.config); most > 0 {
		over.bytes = n.Bytes + n.Length()*ItemBytes - most
	}
	return over
}

// tooFull is the reason to refuse an item with which the queue exceeds a limit by over; nil: it exceeds none.
func (q *queueRows) tooFull(over amount) error {
	most := q.store.maxBytes(&q.state.config)
	switch {
	case !over.tooMuch():
		return nil
	case over.items > 0:
		return fmt.Errorf("%w: its max_length is %d", ErrFull, q.state.config.MaxLength)
	case most != q.state.config.MaxBytes:
		return fmt.Errorf("%w: no queue here may have more than %d bytes, of which each item takes %d besides its own", ErrFull, most, ItemBytes)
	}
	return fmt.Errorf("%w: its max_bytes is %d, of which each item takes %d besides its own", ErrFull, most, ItemBytes)
}

// refuses is why a queue with such counts takes no item, however small; nil: it may take an item.
func (q *queueRows) refuses(n Counts) error {
	if q.state.config.Overflow == OverflowEvict {
		return nil
	}
	return q.tooFull(q.excess(n).plus(amountOf(0)))
}
