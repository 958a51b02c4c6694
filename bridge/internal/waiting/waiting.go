// Package waiting keeps the pops that found nothing until an item arrives for them or
// their time is up. It knows neither NATS nor the store. Its caller says what each pop
// waits for; the package says which pops to try to serve and which waits have ended.
//
// What it guarantees: pops that wait for the same band are served in the order in
// which they came. Each wait ends once: with a call of [Pops.Remove], with an error
// from [Pops.Keep], or with a call of Options.End. The number of places is bounded.
// When all are taken, a queue with less than its share gets a place from the queue
// with the most, and within a queue a client from the client with the most. A waiting
// pop has no goroutine and no timer of its own.
package waiting

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Options configure [Pops]. T is the caller's own type for a pop. The functions are
// called without a lock held, and may be called at the same time.
type Options[T any] struct {
	// Places is how many pops wait at most.
	Places int

	// Bands bounds the different bands for which pops wait at a queue: an arrival costs one look for each band. The
	// band of all priorities does not count.
	Bands int

	// Tenant returns the tenant of a queue, and how many pops may wait at all of its queues; 0: any number. nil:
	// there are no tenants.
	Tenant func(queue string) (name string, most int)

	// End ends the wait of a pop that is in no attempt. Why is ErrOver, ErrGone, a *FullError, or the argument of
	// Close.
	End func(pop T, why error)

	// Serve attempts to serve a queue's pops: items may have arrived for them.
	Serve func(queue string)

	// Gone returns the reply subjects, of these waits, whose clients do not listen any more.
	Gone func(of []Wait) []string
}

// Wait says what a pop waits for, and for how long.
type Wait struct {
	Queue  string
	Band   fdbpq.Band
	Reply  string    // the subject of its answer
	Ends   time.Time // when it gets the answer that nothing arrived
	Unseen bool      // the server cannot tell whether its client listens
	Looks  bool      // it is a peek, which takes nothing
}

// Pop is a pop that waits, or is to wait. Get one from [NewPop].
type Pop[T any] struct {
	wait      Wait
	caller    T
	number    uint64 // in the order of the queue
	queue     *queue[T]
	line      *line[T]
	client    *client[T]
	asked     time.Time // when it came, or when the last question about its client was asked
	attempted bool      // a transaction is trying to serve it
	ended     error     // why it does not wait any more, although it is attempted

	inLine, ofClient, inSweep element[T]
	ending                    int // its index among the pops that end
}

// NewPop returns a pop that does not wait yet. The caller knows it as the value that
// Options.End and [Pops.Attempt] give it.
func NewPop[T any](w Wait, caller T) *Pop[T] { return &Pop[T]{wait: w, caller: caller} }

// NewBegun returns a pop of which an attempt is under way when its wait begins: no other one can begin before.
func NewBegun[T any](w Wait, caller T) *Pop[T] {
	return &Pop[T]{wait: w, caller: caller, attempted: true}
}

// Pops are all waiting pops, by queue.
type Pops[T any] struct {
	options Options[T]

	mu      sync.Mutex
	queues  map[string]*queue[T]
	tenants map[string]int  // pops of each
	longest heap[*queue[T]] // the queue with the most pops is first
	ends    heap[*Pop[T]]   // the pop whose time is up next is first
	expiry  *time.Timer
	sweeps  sweep[T]
	unseen  int   // of the waiting ones, those whose clients are not seen
	closed  error // why no pop may wait
}

// New returns Pops without any.
func New[T any](o Options[T]) *Pops[T] {
	p := &Pops[T]{options: o, queues: make(map[string]*queue[T]), tenants: make(map[string]int)}
	if p.options.Tenant == nil {
		p.options.Tenant = func(string) (string, int) { return "", 0 }
	}
	p.longest = heap[*queue[T]]{
		before: func(a, b *queue[T]) bool { return a.size > b.size },
		index:  func(q *queue[T]) *int { return &q.rank },
	}
	p.ends = heap[*Pop[T]]{
		before: func(a, b *Pop[T]) bool { return a.wait.Ends.Before(b.wait.Ends) },
		index:  func(pop *Pop[T]) *int { return &pop.ending },
	}
	p.expiry = stopped(p.expire)
	p.sweeps.timer = stopped(p.sweep)
	return p
}

// stopped returns a timer that calls fn when it has been reset.
func stopped(fn func()) *time.Timer {
	timer := time.AfterFunc(time.Hour, fn)
	timer.Stop()
	return timer
}

// Add makes a pop wait, behind the pops that wait for the same band, or returns why it
// may not. The wait may end before Add returns.
func (p *Pops[T]) Add(pop *Pop[T]) error {
	w := &pop.wait
	p.mu.Lock()
	evicted, err := p.admit(w)
	if err != nil {
		p.mu.Unlock()
		return err
	}
	ended := evicted != nil && p.end(evicted, p.full(evicted.wait.Queue))
	now := time.Now()
	q := p.queues[w.Queue]
	if q == nil {
		q = newQueue[T](w.Queue)
		q.tenant, _ = p.options.Tenant(w.Queue)
		p.queues[w.Queue] = q
		p.longest.push(q)
	}
	pop.asked = now
	q.add(pop)
	p.tenants[q.tenant]++
	p.longest.fix(q)
	p.ends.push(pop)
	if p.ends.first() == pop {
		p.expiry.Reset(w.Ends.Sub(now))
	}
	p.sweeps.pops.add(pop, &pop.inSweep)
	if w.Unseen {
		p.unseen++
	}
	p.plan(now)
	p.mu.Unlock()
	if ended {
		p.options.End(evicted.caller, evicted.ended)
	}
	return nil
}

// end removes a pop, and reports whether the caller has to call Options.End: the end of an
// attempted pop is the result of Keep.
func (p *Pops[T]) end(pop *Pop[T], why error) (tell bool) {
	p.drop(pop)
	pop.ended = why
	return !pop.attempted
}

// drop gives back the place of a pop, if it has one.
func (p *Pops[T]) drop(pop *Pop[T]) {
	q := pop.queue
	if q == nil {
		return
	}
	q.drop(pop)
	if p.tenants[q.tenant]--; p.tenants[q.tenant] == 0 {
		delete(p.tenants, q.tenant)
	}
	p.longest.fix(q)
	p.ends.remove(pop)
	p.sweeps.pops.drop(&pop.inSweep)
	if pop.wait.Unseen {
		p.unseen--
	}
	if q.size == 0 {
		p.longest.remove(q)
		delete(p.queues, q.name)
		if q.watch != nil {
			q.watch.Cancel()
		}
		if q.retry != nil {
			q.retry.Stop()
		}
	}
}

// Remove ends the wait of a pop that was served or refused.
func (p *Pops[T]) Remove(pop *Pop[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(pop)
}

// expire ends the waits whose time is up.
func (p *Pops[T]) expire() {
	for _, pop := range p.over() {
		p.options.End(pop.caller, ErrOver)
	}
}

func (p *Pops[T]) over() (tell []*Pop[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for p.ends.size() > 0 && !p.ends.first().wait.Ends.After(now) {
		if pop := p.ends.first(); p.end(pop, ErrOver) {
			tell = append(tell, pop)
		}
	}
	if p.ends.size() > 0 {
		p.expiry.Reset(p.ends.first().wait.Ends.Sub(now))
	}
	return tell
}

// Watch makes the pops of a queue be served when the watch ends.
func (p *Pops[T]) Watch(name string, watch *kv.Watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[name]
	if q == nil {
		watch.Cancel()
		return
	}
	q.watch = watch
	go func() {
		<-watch.Done()
		if pause := p.arrived(q); pause > 0 {
			time.AfterFunc(pause, func() { p.options.Serve(name) })
			return
		}
		p.options.Serve(name)
	}()
}

// arrived forgets a queue's watch and says how long to wait before the queue is
// looked at.
func (p *Pops[T]) arrived(q *queue[T]) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return q.arrived()
}

// Close ends all waits. Until Open, no pop may wait.
func (p *Pops[T]) Close(why error) {
	for _, pop := range p.close(why) {
		p.options.End(pop.caller, why)
	}
}

func (p *Pops[T]) close(why error) (tell []*Pop[T]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = why
	p.expiry.Stop()
	p.sweeps.timer.Stop()
	p.sweeps.next = time.Time{}
	for p.ends.size() > 0 {
		if pop := p.ends.first(); p.end(pop, why) {
			tell = append(tell, pop)
		}
	}
	return tell
}

// Open lets pops wait again.
func (p *Pops[T]) Open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = nil
}

// Waiting is how many pops wait.
func (p *Pops[T]) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ends.size()
}

// Queues are the queues at which pops wait.
func (p *Pops[T]) Queues() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.queues))
}

// WaitingAt is how many pops wait at a queue.
func (p *Pops[T]) WaitingAt(queue string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := p.queues[queue]; q != nil {
		return q.size
	}
	return 0
}

// Taking are the queues of a range of names at which pops wait to take items, with their numbers.
func (p *Pops[T]) Taking(inside func(queue string) bool) map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	taking := make(map[string]int)
	for name, q := range p.queues {
		if !inside(name) {
			continue
		}
		for _, in := range q.lines {
			if in.taking > 0 {
				taking[name] += in.taking
			}
		}
	}
	return taking
}

// TakingAt is how many pops wait at a queue to take items, and for which bands.
func (p *Pops[T]) TakingAt(queue string) (n int, bands []fdbpq.Band) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[queue]
	if q == nil {
		return 0, nil
	}
	for band, in := range q.lines {
		if in.taking > 0 {
			n += in.taking
			bands = append(bands, band)
		}
	}
	return n, bands
}

// Why a wait ended, beside the reason of [Pops].Close and a [FullError].
var (
	ErrOver = errors.New("nothing arrived within the time given")
	ErrGone = errors.New("the client stopped listening for its answer")

	// ErrQuota: the tenant has as many waiting pops as it may.
	ErrQuota = errors.New("too many pops of the tenant wait")
)

// FullError names the limit because of which a pop may not wait, or wait on.
type FullError struct{ text string }

func (e *FullError) Error() string { return e.text }

// client has the waiting pops of one client at a queue.
type client[T any] struct {
	name string
	pops list[T]
	rank int // its index among the busiest
}

// clientOf names the client to which a reply subject belongs. Client libraries have one inbox a connection, with a
// last token for each request. All clients with an inbox for each request share one name: otherwise each of their
// pops would count as another client.
//
// A client can choose its name. So names decide only between the clients of one queue, not between queues.
func clientOf(reply string) string {
	return reply[:max(0, strings.LastIndexByte(reply, '.'))]
}

// A rate may allow a delivery at a known time, although nothing arrives then. So a queue has one timer for all its
// pops: the first pop that may find something sets it.

// soonest bounds how often a timer makes the bridge look at a queue. Tokens of a fast rate gather meanwhile, for
// several pops.
const soonest = 5 * time.Millisecond

// Retry makes the pops of a queue be served after a time, unless they are served before.
func (p *Pops[T]) Retry(name string, after time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.queues[name]
	if q == nil {
		return
	}
	after = max(after, soonest)
	at := time.Now().Add(after)
	switch {
	case !q.retryAt.IsZero() && !at.Before(q.retryAt):
		return
	case q.retry == nil:
		q.retry = time.AfterFunc(after, func() {
			if p.retried(q) {
				p.options.Serve(name)
			}
		})
	default:
		q.retry.Reset(after)
	}
	q.retryAt = at
}

// retried forgets the timer of a queue, and reports whether pops still wait there.
func (p *Pops[T]) retried(q *queue[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	q.retryAt = time.Time{}
	return q.size > 0
}
