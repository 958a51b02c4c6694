package waiting

import (
	"cmp"
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
