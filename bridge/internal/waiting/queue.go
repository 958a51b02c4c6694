package waiting

import (
	"cmp"
	std "container/heap"
	"fmt"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// queue has the pops that wait at a queue: each pop stands in the line of its band, and among the pops of its client.
type queue[T any] struct {
	name    string
	tenant  string
	lines   map[fdbpq.Band]*line[T]
	clients map[string]*client[T]
	busiest heap[*client[T]] // the client that has most pops here is first
	last    uint64           // number given to the last pop
	size    int
	rank    int       // its index among the longest
	watch   *kv.Watch // nil when none is set
	idle    int       // times in a row that the watch ended for nothing

	retry   *time.Timer // nil until it was needed
	retryAt time.Time   // when it ends; zero: it does not run
}

// line is the pops that wait for items of the same band, in the order in which they came: if there is nothing for
// the first, there is nothing for any.
type line[T any] struct {
	band   fdbpq.Band
	pops   list[T]
	taking int // of the pops; the others are peeks
}

func newQueue[T any](name string) *queue[T] {
	return &queue[T]{
		name: name, lines: make(map[fdbpq.Band]*line[T]), clients: make(map[string]*client[T]),
		busiest: heap[*client[T]]{
			before: func(a, b *client[T]) bool { return a.pops.size > b.pops.size },
			index:  func(c *client[T]) *int { return &c.rank },
		},
	}
}

// add gives a pop the last place of its line.
func (q *queue[T]) add(pop *Pop[T]) {
	in := q.lines[pop.wait.Band]
	if in == nil {
		in = &line[T]{band: pop.wait.Band}
		q.lines[in.band] = in
	}
	name := clientOf(pop.wait.Reply)
	of := q.clients[name]
	if of == nil {
		of = &client[T]{name: name}
		q.clients[name] = of
		q.busiest.push(of)
	}
	q.last++
	q.size++
	pop.queue, pop.line, pop.client, pop.number = q, in, of, q.last
	in.pops.add(pop, &pop.inLine)
	if !pop.wait.Looks {
		in.taking++
	}
	of.pops.add(pop, &pop.ofClient)
	q.busiest.fix(of)
}

func (q *queue[T]) drop(pop *Pop[T]) {
	in, of := pop.line, pop.client
	in.pops.drop(&pop.inLine)
	if !pop.wait.Looks {
		in.taking--
	}
	if in.pops.size == 0 {
		delete(q.lines, in.band)
	}
	of.pops.drop(&pop.ofClient)
	q.busiest.fix(of)
	if of.pops.size == 0 {
		q.busiest.remove(of)
		delete(q.clients, of.name)
	}
	q.size--
	q.idle = 0
	pop.queue, pop.line, pop.client = nil, nil, nil
}

// A watch ends for nothing when another bridge was faster, but also when the
// engine cannot watch, and then must not keep it busy: after so many ends in a
// row the queue is looked at with a pause.
const (
	idleAfter = 3
	idlePause = 20 * time.Millisecond
)

func (q *queue[T]) arrived() (pause time.Duration) {
	q.watch = nil
	q.idle++
	if q.idle > idleAfter {
		return idlePause
	}
	return 0
}

// attemptMost bounds how many of a line one transaction tries to serve.
const attemptMost = 128

// Attempt is the set of pops that one transaction tries to serve.
type Attempt[T any] struct {
	Pops    []T          // in the order in which they came
	Beyond  []fdbpq.Band // more pops wait for these
	Watched bool         // the queue has a watch
}

// Attempt returns the first pops of each line of a queue, for a transaction to
// serve. Their time may run out meanwhile, but End is not called for them:
// each has to be given to Remove or Keep.
func (p *Pops[T]) Attempt(name string) Attempt[T] {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[name]
	if q == nil {
		return Attempt[T]{}
	}
	a := Attempt[T]{Watched: q.watch != nil}
	pops := make([]*Pop[T], 0, min(q.size, attemptMost))
	for band, in := range q.lines {
		e := in.pops.first
		for n := 0; e != nil && n < attemptMost; n++ {
			e.pop.attempted = true
			pops = append(pops, e.pop)
			e = e.next
		}
		if e != nil {
			a.Beyond = append(a.Beyond, band)
		}
	}
	if len(q.lines) > 1 {
		slices.SortFunc(pops, func(a, b *Pop[T]) int { return cmp.Compare(a.number, b.number) })
	}
	a.Pops = make([]T, len(pops))
	for i, pop := range pops {
		a.Pops[i] = pop.caller
	}
	return a
}

// Begin begins the attempt of one pop, as Attempt does for the first pops of each line. It returns false if an attempt is under way, or
// its wait has ended.
func (p *Pops[T]) Begin(pop *Pop[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pop.attempted || pop.queue == nil {
		return false
	}
	pop.attempted = true
	return true
}

// Keep lets a pop that could not be served wait on, or says why it may not.
func (p *Pops[T]) Keep(pop *Pop[T]) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	pop.attempted = false
	return pop.ended
}

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

// heap has elements in an order, with the first one at index 0. Each element keeps its index, so that it can be
// moved and removed.
type heap[E any] struct {
	before func(a, b E) bool
	index  func(E) *int
	all    []E
}

func (h *heap[E]) first() E   { return h.all[0] }
func (h *heap[E]) size() int  { return len(h.all) }
func (h *heap[E]) push(e E)   { std.Push((*ordered[E])(h), e) }
func (h *heap[E]) fix(e E)    { std.Fix((*ordered[E])(h), *h.index(e)) }
func (h *heap[E]) remove(e E) { std.Remove((*ordered[E])(h), *h.index(e)) }

// ordered is a heap in the form that the standard library needs.
type ordered[E any] heap[E]

func (o *ordered[E]) Len() int           { return len(o.all) }
func (o *ordered[E]) Less(i, j int) bool { return o.before(o.all[i], o.all[j]) }

func (o *ordered[E]) Swap(i, j int) {
	o.all[i], o.all[j] = o.all[j], o.all[i]
	*o.index(o.all[i]), *o.index(o.all[j]) = i, j
}

func (o *ordered[E]) Push(x any) {
	e := x.(E)
	*o.index(e) = len(o.all)
	o.all = append(o.all, e)
}

func (o *ordered[E]) Pop() any {
	last := len(o.all) - 1
	e := o.all[last]
	var none E
	o.all[last] = none
	o.all = o.all[:last]
	return e
}

// list has pops in the order in which they were added. The elements are parts of the
// pops, so that any of them can be removed.
type list[T any] struct {
	first, last *element[T]
	size        int
}

type element[T any] struct {
	pop        *Pop[T] // nil: it is in no list
	prev, next *element[T]
}

func (l *list[T]) add(pop *Pop[T], e *element[T]) {
	*e = element[T]{pop: pop, prev: l.last}
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.size++
}

func (l *list[T]) drop(e *element[T]) {
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	*e = element[T]{}
	l.size--
}
