package bridge

import "sync"

// settlementOrder runs the settlements of a lease in the order in which they were
// read. They may belong to different lanes, which are independent of each other. So
// only the first settlement of a lease goes to its lane at once; each other one
// starts when the one before it has ended.
type settlementOrder struct {
	start func(*settlement) // hands one to its lane

	mu   sync.Mutex
	last map[leaseKey]*settlement // by lease: the last settlement that has not ended
}

// leaseKey names a lease as its ack subject does.
type leaseKey struct{ queue, token string }

// orderPlace is a settlement's place among the settlements of its lease.
type orderPlace struct {
	in   *settlementOrder // nil: it has no place
	next *settlement      // starts when this one ends
}

func (o *settlementOrder) init(start func(*settlement)) {
	o.start, o.last = start, make(map[leaseKey]*settlement)
}

func (s *settlement) leaseKey() leaseKey { return leaseKey{s.subject.Queue, s.subject.Token} }

// add adds a settlement behind the others of its lease, and says whether there are
// none: then it may start.
func (o *settlementOrder) add(s *settlement) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.last[s.leaseKey()]
	o.last[s.leaseKey()] = s
	s.order.in = o
	if before != nil {
		before.order.next = s
	}
	return before == nil
}

// leaveOrder removes a settlement that has ended, and starts the next one of its
// lease. Without a place it does nothing.
func (s *settlement) leaveOrder() {
	o := s.order.in
	if o == nil {
		return
	}
	o.mu.Lock()
	next := s.order.next
	if next == nil {
		delete(o.last, s.leaseKey())
	}
	s.order = orderPlace{}
	o.mu.Unlock()
	if next != nil {
		o.start(next)
	}
}
