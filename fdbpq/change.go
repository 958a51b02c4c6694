package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// change is work on one queue within a transaction, or only a look at it. What
// it does to the queue's counters is gathered and written once by finish.
type change struct {
	Queue
	tx      kv.Tx     // nil for a look
	past    kv.Reader // the transaction's snapshot
	state   *state
	clock   int64 // store time, 0 until asked for
	tally   tally
	arrived bool // something became takeable
	events  []Event
	spent   int // weight of the items worked on so far
	buffers *buffers
}

// buffers are what keys and values are put together in. The changes of one queue
// in one transaction follow one another and share them.
type buffers struct {
	generation int64  // of the prefixes
	ready      []byte // prefixes of the two spaces that batches work on
	leased     []byte
	key        []byte
	value      []byte
}

// tally is what a change adds to the counters of its queue.
type tally struct {
	ready, leased, delayed, bytes, expiring, remembered int64
}

// begin starts a change; nil when there is no such queue.
func (q Queue) begin(tx kv.Tx) (*change, error) {
	s, err := q.read(tx)
	if err != nil || s == nil {
		return nil, err
	}
	return q.change(tx, s), nil
}

func (q Queue) change(tx kv.Tx, s *state) *change {
	c := q.look(tx.Snapshot(), s)
	c.tx = tx
	return c
}

// look is a change that changes nothing.
func (q Queue) look(r kv.Reader, s *state) *change {
	c := &change{Queue: q, past: r, state: s}
	if q.known != nil {
		c.buffers = &q.known.buffers
	} else {
		c.buffers = new(buffers)
	}
	return c
}

// now is store time, the same for all of the change.
func (c *change) now() (int64, error) {
	if c.clock == 0 && c.known != nil {
		c.clock = c.known.clock
	}
	if c.clock == 0 {
		now, err := c.store.now(c.past)
		if err != nil {
			return 0, err
		}
		c.clock = now
		if c.known != nil {
			c.known.clock = now
		}
	}
	return c.clock, nil
}

// prefix returns what the keys of a space of the queue start with.
func (c *change) prefix(space string) []byte {
	b, generation := c.buffers, c.state.generation
	if b.generation != generation {
		b.generation, b.ready, b.leased = generation, nil, nil
	}
	var kept *[]byte
	switch space {
	case spaceReady:
		kept = &b.ready
	case spaceLeased:
		kept = &b.leased
	default:
		return generationPrefix(space, c.name, generation)
	}
	if *kept == nil {
		*kept = generationPrefix(space, c.name, generation)
	}
	return *kept
}

// key returns the key of p in a space; it is valid until the next call, like
// timerKey's.
func (c *change) key(space string, p place) []byte {
	b := c.buffers
	b.key = p.append(append(b.key[:0], c.prefix(space)...))
	return b.key
}

// timerKey returns the key of the timer of the item at p.
func (c *change) timerKey(due int64, kind string, p place) []byte {
	b := c.buffers
	b.key = appendTimerKey(b.key[:0], due, kind, c.name, c.state.generation, p)
	return b.key
}

// set puts a value at p in a space. The value was put together in the buffer for
// values, which it becomes again.
func (c *change) set(space string, p place, value []byte) {
	c.tx.Set(c.key(space, p), value)
	c.buffers.value = value
}

// addReady makes an item takeable.
func (c *change) addReady(p place, e *envelope) {
	c.set(spaceReady, p, e.append(c.buffers.value[:0]))
	c.setExpiry(p, e)
	c.tally.ready++
	c.arrived = true
}

// removeReady takes an item that stands ready out of the queue's order. Two
// transactions that remove the same item conflict.
func (c *change) removeReady(p place, e *envelope) {
	key := c.key(spaceReady, p)
	c.tx.Conflict(key)
	c.tx.Clear(key)
	c.clearExpiry(p, e)
	if e.foreign {
		c.tally.bytes += e.size // of what has not been counted yet
		return
	}
	c.tally.ready--
}

// drop forgets an item that stands in no space any more.
func (c *change) drop(p place, e *envelope) {
	c.clearContent(e, p)
	c.tally.bytes -= e.size
	if e.home != p.priority {
		c.tx.Clear(c.key(spaceForward, place{priority: e.home, tail: p.tail}))
	}
}

// finish writes what the change adds up to.
func (c *change) finish() {
	for counter, delta := range c.tally.fields() {
		if *delta != 0 {
			c.tx.Add(c.counterKey(c.state.generation, counter), *delta)
		}
	}
	if c.arrived {
		c.tx.Add(queueRow(spaceArrivals, c.name), 1)
	}
	c.tally, c.arrived = tally{}, false
}
