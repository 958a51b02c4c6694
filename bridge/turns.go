package bridge

import "sync"

// turns keeps the settlements of a lease in the order in which they were read. They
// may run in different lanes, which know nothing of each other: so the first one
// of a lease goes to a lane, and the others follow one by one.
type turns struct {
	start func(*settlement) // hands one to a lane

	mu   sync.Mutex
	last map[leaseKey]*settlement // by lease: the last settlement that is not done
}

// leaseKey names a lease as its ack subject does.
type leaseKey struct{ queue, token string }

// turn is a settlement's place among those of its lease.
type turn struct {
	of   *turns      // nil: it has none
	next *settlement // waits for it
}

func (t *turns) init(start func(*settlement)) {
	t.start, t.last = start, make(map[leaseKey]*settlement)
}

func (r *settlement) leaseKey() leaseKey { return leaseKey{r.subject.Queue, r.subject.Token} }

// take takes a turn for a settlement, and says whether it is the first in line.
func (t *turns) take(r *settlement) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.last[r.leaseKey()]
	t.last[r.leaseKey()] = r
	r.turn.of = t
	if before != nil {
		before.turn.next = r
	}
	return before == nil
}

// end ends a settlement's turn: it took effect, or was refused.
func (t *turns) end(r *settlement) {
	if r.turn.of == nil {
		return
	}
	t.mu.Lock()
	next := r.turn.next
	if next == nil {
		delete(t.last, r.leaseKey())
	}
	r.turn = turn{}
	t.mu.Unlock()
	if next != nil {
		t.start(next)
	}
}
