// Package batch runs the requests of a key that shares nothing with others: queries, which have a state of the store each, and
// pages of bulk operations. The requests for a key that arrive while a batch of that key runs are its next batch; a key without work
// is served at once. The package knows neither requests nor transactions: a [Worker] does the work. What changes the store for many
// queues takes turns instead, see package turns.
//
// What it guarantees: batches of a key follow one another, in the order in which their requests were submitted, and keys do not wait
// for each other; a batch stays within [Limits]; and requests that wait for too long behind a transaction that does not end are
// handed back, in their order. [Run] has the rule for a request that makes its batch fail: the others are served without it, and no
// order changes.
package batch

import (
	"sync"
	"time"
)

// Worker does the work of one slot, one batch after the other. It belongs to the slot's goroutine and may keep buffers from batch to
// batch.
type Worker[R any] interface {
	// Begin is called when the slot turns to a key.
	Begin(key string)

	// Work does a batch. The slice is the slot's and used again afterwards.
	Work([]R)
}

// Limits bound one batch. At least one request always fits.
type Limits struct {
	Requests int
	Bytes    int

	// Wait bounds the line of submitted requests: while its first request has waited for longer, Submit takes no
	// further request. Zero: there is no such bound.
	Wait time.Duration
}

// Patience bounds how long requests wait behind a transaction that does not end. When it has run for First, and after
// each further Then, the requests are handed back that have waited for Then.
type Patience struct{ First, Then time.Duration }

// Options configure a pool. All but Patience are required.
type Options[R any] struct {
	Limits   Limits
	Patience Patience

	// Worker returns the worker of a new slot.
	Worker func(*Slot[R]) Worker[R]

	// Size returns the number of bytes that a request takes of Limits.Bytes.
	Size func(R) int

	// Waited returns how long a request has waited.
	Waited func(R) time.Duration

	// Stuck gets requests back that have waited for too long. None of them was begun. It is called without requests,
	// too, when no request waits behind the transaction that is stuck.
	Stuck func([]R)
}

// maxIdle bounds the idle slots, with their goroutines and the memory of their workers, that wait for further work.
const maxIdle = 64

// Pool does one kind of work. Each key with work has a line of requests, and a slot that serves the line.
type Pool[R any] struct {
	options Options[R]

	mu      sync.Mutex
	active  map[string]*queueLine[R]
	idle    []*Slot[R]      // to be used again, with their buffers and grown stacks
	lines   []*queueLine[R] // to be used again
	stopped bool

	running sync.WaitGroup // the slots' goroutines
}

// New returns a pool without work.
func New[R any](o Options[R]) *Pool[R] {
	return &Pool[R]{options: o, active: make(map[string]*queueLine[R])}
}

// Submit appends a request to the line of its key. It returns false, and leaves the request to the caller, when
// Limits.Wait forbids that.
func (p *Pool[R]) Submit(key string, r R) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.lineOf(key)
	o := &p.options
	if o.Limits.Wait > 0 && len(s.pending) > 0 && o.Waited(s.pending[0]) > o.Limits.Wait {
		return false
	}
	s.pending = append(s.pending, r)
	p.start(s)
	return true
}

// Idle returns the number of slots without work.
func (p *Pool[R]) Idle() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

// lineOf returns the line of a key. The lock is held.
func (p *Pool[R]) lineOf(key string) *queueLine[R] {
	s := p.active[key]
	if s != nil {
		return s
	}
	if n := len(p.lines); n > 0 {
		s, p.lines = p.lines[n-1], p.lines[:n-1]
	} else {
		s = &queueLine[R]{}
	}
	s.key = key
	p.active[key] = s
	return s
}

// start has a slot serve a line, unless one does. The lock is held; the slot takes it to make its first batch.
func (p *Pool[R]) start(at *queueLine[R]) {
	if at.served {
		return
	}
	var s *Slot[R]
	if n := len(p.idle); n > 0 {
		s, p.idle = p.idle[n-1], p.idle[:n-1]
	} else {
		s = &Slot[R]{of: p, lines: make(chan *queueLine[R], 1)}
		s.worker = p.options.Worker(s)
		p.running.Go(s.run)
	}
	at.served = true
	s.lines <- at
}

// rest ends the service of a slot at its line. The lock is held.
func (p *Pool[R]) rest(s *Slot[R]) {
	line := s.line
	line.served = false
	delete(p.active, line.key)
	if len(p.lines) < maxIdle {
		p.lines = append(p.lines, line)
	}
	if p.stopped || len(p.idle) == maxIdle {
		close(s.lines)
	} else {
		p.idle = append(p.idle, s)
	}
}

// Stop ends the idle slots, and the others when they become idle. Requests submitted
// afterwards are still done.
func (p *Pool[R]) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	for _, s := range p.idle {
		close(s.lines)
	}
	p.idle = nil
}

// Wait returns when all slots have ended. Only after Stop.
func (p *Pool[R]) Wait() { p.running.Wait() }

// Slot does the batches of one key at a time, one batch after another.
type Slot[R any] struct {
	of     *Pool[R]
	worker Worker[R]
	lines  chan *queueLine[R] // the line to serve next; closed to end the slot
	line   *queueLine[R]      // the line that it serves

	now []R // the present batch

	// Guarded by of.mu.
	busy   bool        // a transaction is under way
	relief *time.Timer // calls relieve when it takes too long
}

func (s *Slot[R]) run() {
	for s.line = range s.lines {
		s.worker.Begin(s.line.key)
		for s.next() {
			s.worker.Work(s.now)
			clear(s.now)
			s.now = s.now[:0]
		}
	}
}

// next makes the next batch. Without work the slot becomes idle.
func (s *Slot[R]) next() bool {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	line, o := s.line, &s.of.options
	if s.now = shift(s.now, &line.pending, o.fitting(line.pending)); len(s.now) > 0 {
		return true
	}
	s.of.rest(s)
	return false
}

// fitting returns how many requests go into one batch: at least one.
func (o *Options[R]) fitting(pending []R) int {
	bytes := 0
	for i, r := range pending {
		bytes += o.Size(r)
		if i > 0 && (i == o.Limits.Requests || bytes > o.Limits.Bytes) {
			return i
		}
	}
	return len(pending)
}

// shift moves the first n requests of a line to an empty list. If these are all requests, the line and the list change
// places, so that the memory of both is used again.
func shift[R any](to []R, line *[]R, n int) []R {
	from := *line
	if n == len(from) {
		*line = to
		return from
	}
	to = append(to, from[:n]...)
	left := copy(from, from[n:])
	clear(from[left:])
	*line = from[:left]
	return to
}

// SetBusy says whether a transaction is under way. Stuck gets the requests that wait for too long behind it.
func (s *Slot[R]) SetBusy(busy bool) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.busy = busy
	switch {
	case busy && s.relief == nil:
		s.relief = time.AfterFunc(s.of.options.Patience.First, s.relieve)
	case busy:
		s.relief.Reset(s.of.options.Patience.First)
	}
}

func (s *Slot[R]) relieve() {
	if late, stuck := s.late(); stuck {
		s.of.options.Stuck(late)
	}
}

// late removes the requests that have waited for too long from the line, in their order, and sets the timer again.
// stuck is false when the transaction has ended meanwhile.
func (s *Slot[R]) late() (late []R, stuck bool) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if !s.busy {
		return nil, false
	}
	o := &s.of.options
	s.relief.Reset(o.Patience.Then)
	return shiftLate(&s.line.pending, o.Patience.Then, o.Waited), true
}

// shiftLate removes the first requests of a line, as far as they have waited for longer than patience.
func shiftLate[R any](line *[]R, patience time.Duration, waited func(R) time.Duration) []R {
	n := 0
	for n < len(*line) && waited((*line)[n]) >= patience {
		n++
	}
	return shift(nil, line, n)
}

// queueLine has the requests of a key that wait. [Pool].mu guards its fields.
type queueLine[R any] struct {
	key     string
	pending []R
	served  bool // a slot serves it
}

// Transactions runs requests as transactions, and ends them.
type Transactions[R any] interface {
	// Try runs requests as one transaction and returns how many it has served: all of
	// them, or at least the first one if they do not fit into one. With an error it has
	// served none; it returns the index of the request that failed, or len(requests) if
	// that is unknown.
	Try(requests []R) (int, error)

	// Common reports whether no single request caused an error: it concerns every
	// request, and fewer of them would not have helped.
	Common(error) bool

	// Answer ends requests. Without an error they were served, in one transaction.
	Answer(requests []R, err error)
}

// Run serves requests in their order with as few transactions as it can. When a request makes a transaction fail, the
// requests before it run without it, then it runs alone, and then the rest. Each request is answered once.
func Run[R any](requests []R, t Transactions[R]) {
	bisection := NewBisection(len(requests))
	for len(requests) > 0 {
		n, err := t.Try(requests[:bisection.Len()])
		if err != nil && !t.Common(err) && bisection.Shrink(n) {
			continue
		}
		if err != nil {
			n = bisection.Len()
		}
		t.Answer(requests[:n], err)
		bisection.Ended(n)
		requests = requests[n:]
	}
}

// Bisection counts the first requests of a batch that the next transaction takes.
type Bisection struct {
	left       int // requests that have not ended
	n          int // the first requests, which the transaction takes
	poisonedAt int // the first requests, of which one fails the transaction; 0: not known
}

// NewBisection returns one whose next transaction takes all of n requests.
func NewBisection(n int) Bisection { return Bisection{left: n, n: n} }

// Len returns the number of requests that the next transaction takes.
func (p *Bisection) Len() int { return p.n }

// Shrink has the next transaction take fewer after a transaction has failed. at is the index of the request that failed it, or Len
// if that is unknown. It returns false when that is a single request.
func (p *Bisection) Shrink(at int) bool {
	switch {
	case p.n == 1:
		return false
	case at < p.n:
		p.poisonedAt, p.n = at+1, max(1, at)
	default:
		p.poisonedAt, p.n = p.n, p.n/2
	}
	return true
}

// Ended removes the first n requests, which have ended, and chooses the next ones.
func (p *Bisection) Ended(n int) {
	p.left -= n
	p.poisonedAt = max(0, p.poisonedAt-n)
	p.n = p.left
	if p.poisonedAt > 0 {
		p.n = max(1, p.poisonedAt/2)
	}
}
