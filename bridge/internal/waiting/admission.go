package waiting

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// admit says whether a pop may wait, and which pop has to give up its place if none is free.
func (p *Pops[T]) admit(w *Wait) (evicted *Pop[T], err error) {
	if p.closed != nil {
		return nil, p.closed
	}
	if !w.Ends.After(time.Now()) {
		return nil, ErrOver
	}
	q := p.queues[w.Queue]
	if q != nil && q.lines[w.Band] == nil && w.Band != fdbpq.AllPriorities && q.bands() >= p.options.Bands {
		return nil, &FullError{fmt.Sprintf("pops wait for %d different bands at queue %s, and no more may: wait for one of those, or for all priorities", p.options.Bands, q.name)}
	}
	if tenant, most := p.options.Tenant(w.Queue); most > 0 && p.tenants[tenant] >= most {
		return nil, ErrQuota
	}
	if p.ends.size() < p.options.Places {
		return nil, nil
	}
	if evicted = p.spare(w); evicted == nil {
		return nil, p.full(w.Queue)
	}
	return evicted, nil
}

// bands is the number of bands that pops wait for, without the band of all priorities.
func (q *queue[T]) bands() int {
	n := len(q.lines)
	if q.lines[fdbpq.AllPriorities] != nil {
		n--
	}
	return n
}

// spare returns the pop that has to make room for a new one: a pop of the queue with the most waiting pops; or, if
// the new pop's queue has its share, of the client with the most pops there. After the exchange the new pop's
// queue, or client, must not have more than the other: otherwise two would take the place from each other for ever.
func (p *Pops[T]) spare(w *Wait) *Pop[T] {
	longest, q, size := p.longest.first(), p.queues[w.Queue], 0
	if q != nil {
		size = q.size
	}
	if size+1 < longest.size {
		return longest.busiest.first().pops.last.pop
	}
	if q == nil {
		return nil
	}
	busiest, size := q.busiest.first(), 0
	if c := q.clients[clientOf(w.Reply)]; c != nil {
		size = c.pops.size
	}
	if size+1 < busiest.pops.size {
		return busiest.pops.last.pop
	}
	return nil
}

func (p *Pops[T]) full(queue string) error {
	return &FullError{fmt.Sprintf("too many waiting pops: this bridge takes %d, and queue %s has its share of them", p.options.Places, queue)}
}
