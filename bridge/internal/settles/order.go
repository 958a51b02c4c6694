package settles

import (
	"sync"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
)

// order runs the settlements of a lease in the order in which they were read. They may go to different lanes,
// which are independent of each other. So only the first settlement of a lease goes to its lane at once; each
// further one starts when the one before it has ended.
type order struct {
	mu   sync.Mutex
	last map[leaseKey]*Place // by lease: the last settlement that has not ended
}

// leaseKey names a lease as its ack subject does.
type leaseKey struct{ queue, token string }

func leaseOf(w desk.Work) leaseKey {
	s := &w.Head().Subject
	return leaseKey{s.Queue, s.Token}
}

// Place is the place of a settlement, or of the pop of a +NXT, among the settlements of its lease.
type Place struct {
	of    desk.Work
	start func(desk.Work) // hands it to its lane
	in    *order          // nil: it has no place
	next  *Place          // starts when this one ends
}

// start starts a settlement behind the others of its lease.
func (o *order) start(p *Place, of desk.Work, start func(desk.Work)) {
	if o.add(p, of, start) {
		start(of)
	}
}

// add gives a settlement the place behind the others of its lease, and reports whether
// there are none: then it may start.
func (o *order) add(p *Place, of desk.Work, start func(desk.Work)) bool {
	key := leaseOf(of)
	o.mu.Lock()
	defer o.mu.Unlock()
	p.of, p.start, p.in = of, start, o
	before := o.last[key]
	o.last[key] = p
	if before != nil {
		before.next = p
	}
	return before == nil
}

// Leave removes a settlement that has ended, and starts the next one of its lease.
// Without a place it does nothing.
func (p *Place) Leave() {
	o := p.in
	if o == nil {
		return
	}
	o.mu.Lock()
	next := p.next
	if next == nil {
		delete(o.last, leaseOf(p.of))
	}
	*p = Place{}
	o.mu.Unlock()
	if next != nil {
		next.start(next.of)
	}
}
