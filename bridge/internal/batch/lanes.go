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
