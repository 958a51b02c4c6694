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

// Worker does the work of one lane, one batch after the other. It belongs to the lane's goroutine and may keep buffers from batch to
// batch.
type Worker[R any] interface {
	// Begin is called when the lane turns to a key.
	Begin(key string)

	// Work does a batch. The slice is the lane's and used again afterwards.
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

// Options configure lanes. All but Patience are required.
type Options[R any] struct {
	Limits   Limits
	Patience Patience

	// Worker returns the worker of a new lane.
	Worker func(*Lane[R]) Worker[R]

	// Size returns the number of bytes that a request takes of Limits.Bytes.
	Size func(R) int

	// Waited returns how long a request has waited.
	Waited func(R) time.Duration

	// Stuck gets requests back that have waited for too long. None of them was begun. It is called without requests,
	// too, when no request waits behind the transaction that is stuck.
	Stuck func([]R)
}

// maxIdle bounds the idle lanes, with their goroutines and the memory of their workers, that wait for further work.
const maxIdle = 64

// Lanes do one kind of work. Each key with work has a line of requests, and a lane that serves the line.
type Lanes[R any] struct {
	options Options[R]

	mu      sync.Mutex
	active  map[string]*queueLine[R]
	idle    []*Lane[R]      // to be used again, with their buffers and grown stacks
	lines   []*queueLine[R] // to be used again
	stopped bool

	running sync.WaitGroup // the lanes' goroutines
}

// New returns lanes without work.
func New[R any](o Options[R]) *Lanes[R] {
	return &Lanes[R]{options: o, active: make(map[string]*queueLine[R])}
}

// Submit appends a request to the line of its key. It returns false, and leaves the request to the caller, when
// Limits.Wait forbids that.
func (ls *Lanes[R]) Submit(key string, r R) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lineOf(key)
	o := &ls.options
	if o.Limits.Wait > 0 && len(l.pending) > 0 && o.Waited(l.pending[0]) > o.Limits.Wait {
		return false
	}
	l.pending = append(l.pending, r)
	ls.start(l)
	return true
}

// Idle returns the number of lanes without work.
func (ls *Lanes[R]) Idle() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.idle)
}

// lineOf returns the line of a key. The lock is held.
func (ls *Lanes[R]) lineOf(key string) *queueLine[R] {
	l := ls.active[key]
	if l != nil {
		return l
	}
	if n := len(ls.lines); n > 0 {
		l, ls.lines = ls.lines[n-1], ls.lines[:n-1]
	} else {
		l = &queueLine[R]{}
	}
	l.key = key
	ls.active[key] = l
	return l
}

// start has a lane serve a line, unless one does. The lock is held; the lane takes it to make its first batch.
func (ls *Lanes[R]) start(at *queueLine[R]) {
	if at.served {
		return
	}
	var l *Lane[R]
	if n := len(ls.idle); n > 0 {
		l, ls.idle = ls.idle[n-1], ls.idle[:n-1]
	} else {
		l = &Lane[R]{of: ls, lines: make(chan *queueLine[R], 1)}
		l.worker = ls.options.Worker(l)
		ls.running.Go(l.run)
	}
	at.served = true
	l.lines <- at
}

// rest ends the service of a lane at its line. The lock is held.
func (ls *Lanes[R]) rest(l *Lane[R]) {
	line := l.line
	line.served = false
	delete(ls.active, line.key)
	if len(ls.lines) < maxIdle {
		ls.lines = append(ls.lines, line)
	}
	if ls.stopped || len(ls.idle) == maxIdle {
		close(l.lines)
	} else {
		ls.idle = append(ls.idle, l)
	}
}

// Stop ends the idle lanes, and the others when they become idle. Requests submitted
// afterwards are still done.
func (ls *Lanes[R]) Stop() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.stopped = true
	for _, l := range ls.idle {
		close(l.lines)
	}
	ls.idle = nil
}

// Wait returns when all lanes have ended. Only after Stop.
func (ls *Lanes[R]) Wait() { ls.running.Wait() }

// Lane does the batches of one key at a time, one batch after another.
type Lane[R any] struct {
	of     *Lanes[R]
	worker Worker[R]
	lines  chan *queueLine[R] // the line to serve next; closed to end the lane
	line   *queueLine[R]      // the line that it serves

	now []R // the present batch

	// Guarded by of.mu.
	busy   bool        // a transaction is under way
	relief *time.Timer // calls relieve when it takes too long
}

func (l *Lane[R]) run() {
	for l.line = range l.lines {
		l.worker.Begin(l.line.key)
		for l.next() {
			l.worker.Work(l.now)
			clear(l.now)
			l.now = l.now[:0]
		}
	}
}

// next makes the next batch. Without work the lane becomes idle.
func (l *Lane[R]) next() bool {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	line, o := l.line, &l.of.options
	if l.now = shift(l.now, &line.pending, o.fitting(line.pending)); len(l.now) > 0 {
		return true
	}
	l.of.rest(l)
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
func (l *Lane[R]) SetBusy(busy bool) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	l.busy = busy
	switch {
	case busy && l.relief == nil:
		l.relief = time.AfterFunc(l.of.options.Patience.First, l.relieve)
	case busy:
		l.relief.Reset(l.of.options.Patience.First)
	}
}

func (l *Lane[R]) relieve() {
	if late, stuck := l.late(); stuck {
		l.of.options.Stuck(late)
	}
}

// late removes the requests that have waited for too long from the line, in their order, and sets the timer again.
// stuck is false when the transaction has ended meanwhile.
func (l *Lane[R]) late() (late []R, stuck bool) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if !l.busy {
		return nil, false
	}
	o := &l.of.options
	l.relief.Reset(o.Patience.Then)
	return shiftLate(&l.line.pending, o.Patience.Then, o.Waited), true
}

// shiftLate removes the first requests of a line, as far as they have waited for longer than patience.
func shiftLate[R any](line *[]R, patience time.Duration, waited func(R) time.Duration) []R {
	n := 0
	for n < len(*line) && waited((*line)[n]) >= patience {
		n++
	}
	return shift(nil, line, n)
}

// queueLine has the requests of a key that wait. [Lanes].mu guards its fields.
type queueLine[R any] struct {
	key     string
	pending []R
	served  bool // a lane serves it
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
	part := NewPart(len(requests))
	for len(requests) > 0 {
		n, err := t.Try(requests[:part.Len()])
		if err != nil && !t.Common(err) && part.Shrink(n) {
			continue
		}
		if err != nil {
			n = part.Len()
		}
		t.Answer(requests[:n], err)
		part.Ended(n)
		requests = requests[n:]
	}
}

// Part counts the first requests of a batch that the next transaction takes.
type Part struct {
	left       int // requests that have not ended
	n          int // the first requests, which the transaction takes
	poisonedAt int // the first requests, of which one fails the transaction; 0: not known
}

// NewPart returns the part that has all of n requests.
func NewPart(n int) Part { return Part{left: n, n: n} }

// Len returns the number of requests that the next transaction takes.
func (p *Part) Len() int { return p.n }

// Shrink makes the part smaller after a transaction has failed. at is the index of the request that failed it, or Len
// if that is unknown. It returns false when the part has a single request.
func (p *Part) Shrink(at int) bool {
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

// Ended removes the first n requests, which have ended, and chooses the next part.
func (p *Part) Ended(n int) {
	p.left -= n
	p.poisonedAt = max(0, p.poisonedAt-n)
	p.n = p.left
	if p.poisonedAt > 0 {
		p.n = max(1, p.poisonedAt/2)
	}
}
