// Package batch runs requests in batches. The requests for a key that arrive while a
// batch of that key runs are its next batch; a key without work is served at once, and a
// busy one in batches that grow with the load. The package knows neither requests nor
// transactions: a [Worker] does the work.
//
// What it guarantees: batches of a key follow one another, in the order in which their
// requests were submitted, unless [Beside] lets them run at the same time; keys do not wait
// for each other; a batch stays within [Limits]; and requests that wait for too long behind a
// transaction that does not end are handed back, in their order. [Run] has the rule for a
// request that makes its batch fail: the others are served without it, and no order changes.
package batch

import (
	"sync"
	"time"
)

// Worker does the work of one lane, one batch after the other: requests of the type R that
// were submitted, and of the type J that joined. It belongs to the lane's goroutine and may
// keep buffers from batch to batch.
type Worker[R, J any] interface {
	// Begin is called when the lane turns to a key.
	Begin(key string)

	// Work does a batch. The slices are the lane's and used again afterwards.
	Work(Batch[R, J])
}

// Batch is the work that a lane does at a time.
type Batch[R, J any] struct {
	Requests []R  // the submitted ones, in their order
	Joined   []J  // the joined ones, in their order
	Kicked   bool // there may be work beyond these
}

// Limits bound one batch. At least one request always fits.
type Limits struct {
	Requests int // that were submitted; as many may join
	Bytes    int

	// Wait bounds the line of submitted requests: when the first has waited for longer,
	// there is no place for another one. Zero: there is no such bound.
	Wait time.Duration
}

// Patience bounds how long requests wait behind a transaction that does not end.
// After the first time, and then after every second one, the requests that have
// waited for the second one are handed back.
type Patience struct{ First, Then time.Duration }

// Alone is the type of what joins the batches of lanes that nothing joins.
type Alone = struct{}

// Joins are what the lanes know of requests that join. Both are required if any does.
type Joins[J any] struct {
	Waited func(J) time.Duration
	Stuck  func([]J)
}

// Options configure lanes. All but Patience, Beside and Joins are required.
type Options[R, J any] struct {
	Limits   Limits
	Patience Patience

	// Worker returns the worker of a new lane.
	Worker func(*Lane[R, J]) Worker[R, J]

	// Beside lets batches of one key run at the same time.
	Beside Beside[R]

	// Size is how many bytes of Limits.Bytes a request takes.
	Size func(R) int

	// Waited is how long a request has waited.
	Waited func(R) time.Duration

	// Stuck gets requests back that have waited for too long. None of them was begun. It
	// is called without any requests, too: the transaction is stuck.
	Stuck func([]R)

	// Joins is the same for requests that join.
	Joins Joins[J]
}

// maxIdle bounds the goroutines, and the memory of their workers, that are kept
// for keys that may have work again.
const maxIdle = 64

// Lanes do one kind of work: there is a line for each key that has some, and lanes serve
// it.
type Lanes[R, J any] struct {
	options Options[R, J]

	mu      sync.Mutex
	active  map[string]*line[R, J]
	idle    []*Lane[R, J] // to be used again, with their buffers and grown stacks
	lines   []*line[R, J] // to be used again
	inTurn  marks         // keys whose batches follow one another
	stopped bool

	running sync.WaitGroup // the lanes' goroutines
}

// New returns lanes without work.
func New[R, J any](o Options[R, J]) *Lanes[R, J] {
	return &Lanes[R, J]{options: o, active: make(map[string]*line[R, J]), inTurn: make(marks)}
}

// Submit hands a request to the line of its key. It reports false, and leaves the request
// to the caller, when there is no place for it.
func (ls *Lanes[R, J]) Submit(key string, r R) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lineOf(key)
	o := &ls.options
	if o.Limits.Wait > 0 && len(l.pending) > 0 && o.Waited(l.pending[0]) > o.Limits.Wait {
		return false
	}
	l.pending = append(l.pending, r)
	if l.running == 0 {
		ls.start(l)
	} else if o.Beside.Batches > 0 {
		ls.arrived(l, r)
	}
	return true
}

// Join hands a request to the line of its key. The request does not wait behind
// submitted ones: it is part of the next batch.
func (ls *Lanes[R, J]) Join(key string, r J) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lineOf(key)
	l.joined = append(l.joined, r)
	if l.running == 0 {
		ls.start(l)
	}
}

// Kick makes a lane serve a key, with requests or without.
func (ls *Lanes[R, J]) Kick(key string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lineOf(key)
	l.kicked = true
	if l.running == 0 {
		ls.start(l)
	}
}

// Idle returns how many lanes are kept for keys that may have work again.
func (ls *Lanes[R, J]) Idle() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return len(ls.idle)
}

// lineOf returns the line of a key. The lock is held.
func (ls *Lanes[R, J]) lineOf(key string) *line[R, J] {
	l := ls.active[key]
	if l != nil {
		return l
	}
	if n := len(ls.lines); n > 0 {
		l, ls.lines = ls.lines[n-1], ls.lines[:n-1]
	} else {
		l = &line[R, J]{}
	}
	l.key = key
	ls.active[key] = l
	return l
}

// start has one more lane serve a line. The lane needs the lock, which is held, to look at
// what it has to do.
func (ls *Lanes[R, J]) start(at *line[R, J]) {
	var l *Lane[R, J]
	if n := len(ls.idle); n > 0 {
		l, ls.idle = ls.idle[n-1], ls.idle[:n-1]
	} else {
		l = &Lane[R, J]{of: ls, lines: make(chan *line[R, J], 1)}
		l.worker = ls.options.Worker(l)
		ls.running.Go(l.run)
	}
	at.running++
	l.lines <- at
}

// rest ends the service of a lane at its line. The lock is held.
func (ls *Lanes[R, J]) rest(l *Lane[R, J]) {
	line := l.line
	if line.running--; line.running == 0 {
		delete(ls.active, line.key)
		line.usual = 0
		if len(ls.lines) < maxIdle {
			ls.lines = append(ls.lines, line)
		}
	}
	if ls.stopped || len(ls.idle) == maxIdle {
		close(l.lines)
	} else {
		ls.idle = append(ls.idle, l)
	}
}

// Stop ends the idle lanes, and the others when they become idle. Requests submitted
// afterwards are still done.
func (ls *Lanes[R, J]) Stop() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.stopped = true
	for _, l := range ls.idle {
		close(l.lines)
	}
	ls.idle = nil
}

// Wait returns when all lanes have ended. Only after Stop.
func (ls *Lanes[R, J]) Wait() { ls.running.Wait() }
