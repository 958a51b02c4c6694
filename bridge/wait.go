package bridge

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// waits are the pops that wait for something to arrive. A waiter is a request
// in a list, no goroutine and no timer of its own: one watch a queue tells
// when something arrived, one timer when somebody's time is up.
type waits struct {
	bridge *Bridge

	mu     sync.Mutex
	queues map[string]*waitlist
	ends   deadlines
	timer  *time.Timer
	closed *failure // why nobody may wait
}

// waitlist is who waits at a queue.
type waitlist struct {
	lines map[fdbpq.Band]*line
	last  uint64 // number given to the last waiter
	size  int
	watch *kv.Watch // nil when none is set
	idle  int       // times in a row that the watch ended for nothing
}

// line is those who wait for something in the same band, in the order in which
// they came: if there is nothing for the first, there is nothing for any.
type line struct {
	first, last *pop
	size        int
}

// waiting is a request's place among those that wait.
type waiting struct {
	in         *line // nil: it does not wait
	queue      *waitlist
	number     uint64 // in the order of the queue
	prev, next *pop
	end        time.Time
	heap       int  // index among the deadlines
	claimed    bool // a transaction is trying to serve it
	present    bool // its client was there when the transaction asked
	over       bool // its time is up
}

func (w *waits) init(b *Bridge) {
	w.bridge = b
	w.queues = make(map[string]*waitlist)
	w.timer = time.AfterFunc(time.Hour, w.expire)
	w.timer.Stop()
}

// A waiter is answered a little before its time is up, because the answer has
// to arrive in time.
const (
	waitMargin   = 10 * time.Millisecond
	waitFraction = 10 // of the time, when that is less
)

func (r *pop) deadline() time.Time {
	return r.arrived.Add(r.ask.wait - min(waitMargin, r.ask.wait/waitFraction))
}

// add makes a new request wait; it does not count as in flight any more.
func (w *waits) add(r *pop) *failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed != nil {
		return w.closed
	}
	end := r.deadline()
	if !end.After(time.Now()) {
		return errWaited
	}
	if most := w.bridge.options.Limits.Waiters; len(w.ends) >= most {
		return failf(409, "too many waiters: this bridge takes %d", most)
	}
	queue := w.queues[r.subject.Queue]
	if queue == nil {
		queue = &waitlist{lines: make(map[fdbpq.Band]*line)}
		w.queues[r.subject.Queue] = queue
	}
	in := queue.lines[r.ask.band]
	if in == nil {
		in = &line{}
		queue.lines[r.ask.band] = in
	}
	queue.last++
	queue.size++
	in.size++
	r.place = waiting{in: in, queue: queue, number: queue.last, prev: in.last, end: end}
	if in.last == nil {
		in.first = r
	} else {
		in.last.place.next = r
	}
	in.last = r
	heap.Push(&w.ends, r)
	if w.ends[0] == r {
		w.timer.Reset(time.Until(end))
	}
	w.bridge.gate.leave(&r.request)
	if r.settles != nil {
		w.bridge.turns.end(r.settles)
	}
	r.msg = kept(r.msg)
	r.spent, r.since = r.took(), time.Time{}
	return nil
}

// kept is what a request needs of its message while it waits. The message may be
// as large as the server lets it be.
func kept(m *nats.Msg) *nats.Msg {
	small := &nats.Msg{Subject: m.Subject, Reply: m.Reply}
	for _, key := range traceContext.Fields() {
		if value := messageCarrier(m.Header).Get(key); value != "" && len(value) <= maxTraceField {
			if small.Header == nil {
				small.Header = make(nats.Header)
			}
			small.Header[key] = []string{value}
		}
	}
	return small
}

// maxTraceField is how much of a tracestate everybody has to pass on.
const maxTraceField = 512

// remove ends the wait of a request that is being answered.
func (w *waits) remove(r *pop) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(r)
}

func (w *waits) drop(r *pop) {
	p := r.place
	if p.in == nil {
		return
	}
	if p.prev == nil {
		p.in.first = p.next
	} else {
		p.prev.place.next = p.next
	}
	if p.next == nil {
		p.in.last = p.prev
	} else {
		p.next.place.prev = p.prev
	}
	heap.Remove(&w.ends, p.heap)
	p.queue.idle = 0
	p.in.size--
	p.queue.size--
	if p.in.size == 0 {
		delete(p.queue.lines, r.ask.band)
	}
	if p.queue.size == 0 {
		delete(w.queues, r.subject.Queue)
		if p.queue.watch != nil {
			p.queue.watch.Cancel()
		}
	}
	r.place = waiting{}
}

// claim is what a transaction tries to serve of those that wait.
type claim struct {
	requests []*pop       // in the order in which they came
	beyond   []fdbpq.Band // in which more wait
	watched  bool         // the queue's watch is set
}

// claimMost bounds how many of a line are claimed at a time.
const claimMost = 128

// claim marks the first waiters of each line as being served: their time may
// run out, but they are not answered before they are unclaimed.
func (w *waits) claim(queue string) claim {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.queues[queue]
	if list == nil {
		return claim{}
	}
	c := claim{watched: list.watch != nil}
	now := time.Now()
	for band, in := range list.lines {
		r := in.first
		for n := 0; r != nil && n < claimMost; n++ {
			r.place.claimed, r.place.present, r.since = true, false, now
			c.requests = append(c.requests, r)
			r = r.place.next
		}
		if r != nil {
			c.beyond = append(c.beyond, band)
		}
	}
	if len(list.lines) > 1 {
		slices.SortFunc(c.requests, func(a, b *pop) int { return cmp.Compare(a.place.number, b.place.number) })
	}
	return c
}

// unclaim lets a request wait on, or says why it may not.
func (w *waits) unclaim(r *pop) *failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.place.claimed, r.since = false, time.Time{}
	switch {
	case w.closed != nil:
		w.drop(r)
		return w.closed
	case r.place.over:
		w.drop(r)
		return errWaited
	}
	return nil
}

// idleAfter is how often a watch may end for nothing before the next end is
// followed by a pause: it ends for nothing when somebody else was faster, but
// also when the engine cannot watch, and then must not keep it busy.
const (
	idleAfter = 3
	idlePause = 20 * time.Millisecond
)

// watch has the queue's waiters served when the watch ends.
func (w *waits) watch(queue string, watch *kv.Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.queues[queue]
	if list == nil {
		watch.Cancel()
		return
	}
	list.watch = watch
	go func() {
		<-watch.Done()
		if pause := w.ended(list); pause > 0 {
			time.AfterFunc(pause, func() { w.bridge.lanes.take.Kick(queue) })
			return
		}
		w.bridge.lanes.take.Kick(queue)
	}()
}

// ended forgets a list's watch and says how long to wait before the next one.
func (w *waits) ended(list *waitlist) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	list.watch = nil
	list.idle++
	if list.idle > idleAfter {
		return idlePause
	}
	return 0
}

// expire answers those whose time is up.
func (w *waits) expire() {
	for _, r := range w.overdue(time.Now()) {
		w.bridge.refuse(&r.request, errWaited)
	}
}

func (w *waits) overdue(now time.Time) (over []*pop) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.ends) > 0 && !w.ends[0].place.end.After(now) {
		r := w.ends[0]
		if !r.place.claimed {
			w.drop(r)
			over = append(over, r)
			continue
		}
		// Whoever claimed it answers. It keeps its index for drop.
		r.place.over = true
		r.place.end = r.place.end.Add(protocol.MaxWait)
		heap.Fix(&w.ends, 0)
	}
	if len(w.ends) > 0 {
		w.timer.Reset(time.Until(w.ends[0].place.end))
	}
	return over
}

// close refuses those that wait, and all who would.
func (w *waits) close(why *failure) {
	w.mu.Lock()
	w.closed = why
	w.timer.Stop()
	var refused []*pop
	for _, r := range slices.Clone(w.ends) {
		if !r.place.claimed {
			w.drop(r)
			refused = append(refused, r)
		}
	}
	w.mu.Unlock()
	for _, r := range refused {
		w.bridge.refuse(&r.request, why)
	}
}

// open lets requests wait again.
func (w *waits) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = nil
	if len(w.ends) > 0 { // claimed when it was closed, and not answered yet
		w.timer.Reset(time.Until(w.ends[0].place.end))
	}
}

// count is how many wait at a queue, or at all when it is "".
func (w *waits) count(queue string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if queue == "" {
		return len(w.ends)
	}
	if list := w.queues[queue]; list != nil {
		return list.size
	}
	return 0
}

// deadlines is a heap of waiters, the next to be over first.
type deadlines []*pop

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].place.end.Before(d[j].place.end) }

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place.heap, d[j].place.heap = i, j
}

func (d *deadlines) Push(x any) {
	r := x.(*pop)
	r.place.heap = len(*d)
	*d = append(*d, r)
}

func (d *deadlines) Pop() any {
	old := *d
	r := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	return r
}
