package bridge

import (
	"sync"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
)

// leaseOrder runs the settlements of a lease in the order in which they were read. They may go to different lanes,
// which are independent of each other. So only the first settlement of a lease goes to its lane at once; each
// further one starts when the one before it has ended.
type leaseOrder struct {
	start func(desk.Work) // hands one to its lane

	mu   sync.Mutex
	last map[leaseKey]*orderPlace // by lease: the last settlement that has not ended
}

// leaseKey names a lease as its ack subject does.
type leaseKey struct{ queue, token string }

func leaseOf(w desk.Work) leaseKey {
	s := &w.Head().Subject
	return leaseKey{s.Queue, s.Token}
}

// orderPlace is a settlement's place among the settlements of its lease.
type orderPlace struct {
	of   desk.Work
	in   *leaseOrder // nil: it has no place
	next *orderPlace // starts when this one ends
}

func (o *leaseOrder) init(start func(desk.Work)) {
	o.start, o.last = start, make(map[leaseKey]*orderPlace)
}

// add gives a settlement the place behind the others of its lease, and reports whether
// there are none: then it may start.
func (o *leaseOrder) add(p *orderPlace, of desk.Work) bool {
	key := leaseOf(of)
	o.mu.Lock()
	defer o.mu.Unlock()
	p.of, p.in = of, o
	before := o.last[key]
	o.last[key] = p
	if before != nil {
		before.next = p
	}
	return before == nil
}

// leave removes a settlement that has ended, and starts the next one of its lease.
// Without a place it does nothing.
func (p *orderPlace) leave() {
	o := p.in
	if o == nil {
		return
	}
	o.mu.Lock()
	next := p.next
	if next == nil {
		delete(o.last, leaseOf(p.of))
	}
	*p = orderPlace{}
	o.mu.Unlock()
	if next != nil {
		o.start(next.of)
	}
}
