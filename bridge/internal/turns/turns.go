// Package turns runs the requests of many lines in turns. A line has the requests of one kind for one queue, in their order; a turn is one transaction,
// which serves the first requests of as many lines as wait for it. Requests that arrive meanwhile wait in their lines, and nobody
// is woken for them, so turns grow with the load. The package knows neither requests nor stores: a [Part] does the work.
//
// What it guarantees: each request is answered once. Requests of a line are served in the order in which they were submitted,
// unless [Overlap] lets turns run at the same time; those that go ahead of others keep their order among themselves. A turn stays
// within [Options].Limits, and takes from each line that waits
// before it takes the rest of one. Lines share only what succeeds: a line whose requests fail, are large or take long runs alone,
// and takes no other line with it. Requests that wait for too long behind a transaction that does not end are handed back, in their
// order.
//
// When a turn fails:
//
//   - The store is away: all requests of the turn end with the error.
//   - One part fails: its line runs alone next, and for a second. The others run again as one turn, once.
//   - That fails again, or the commit does: each line runs alone; for a second, if they were too much together.
//   - A part learns before the commit that it must run again, see [Part].Check: its line runs alone next. The others run again at once.
//   - A conflict: each line runs alone, or the turn runs again as a whole, see [Options].Rerun.
//   - A line alone fails: the part may mend that. Otherwise the requests before the one that is the reason run without it, then it,
//     then the rest.
//   - A part serves some of its requests only: the others go back to the front of their line.
package turns

import (
	"slices"
	"sync"
	"time"
)

// Turns take turns of all lines.
type Turns[R, T any] struct {
	options Options[R, T]

	mu      sync.Mutex
	lines   lines[R, T]
	counts  [roles]int // turns under way
	stuck   [roles]int // of these: for longer than patience
	waking  bool       // an executor was woken and has not begun yet
	idle    []*executor[R, T]
	stopped bool

	executors int       // that there are
	none      sync.Cond // is left
}

const (
	// maxAlone is how many lines may run alone at a time.
	maxAlone = 16

	// maxSlow is how many slow turns may be under way besides those that Options.Turns allows.
	maxSlow = 3
)

// New returns turns without work.
func New[R, T any](o Options[R, T]) *Turns[R, T] {
	ts := &Turns[R, T]{options: o}
	ts.none.L = &ts.mu
	ts.lines = lines[R, T]{
		options: &ts.options, all: make(map[Key]*line[R]),
		separate: make(marks[Key]), serial: make(marks[Key]),
		again: func(l *line[R]) {
			ts.mu.Lock()
			defer ts.mu.Unlock()
			ts.lines.waited(l)
			ts.dispatch()
		},
	}
	return ts
}

// Submit appends a request to a line.
func (ts *Turns[R, T]) Submit(key Key, r R) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.lines.add(key, r)
	ts.dispatch()
}

// Wake gives a line a turn, with requests or without: there may be work that has waited for something.
func (ts *Turns[R, T]) Wake(key Key) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.lines.wake(key)
	ts.dispatch()
}

// Waiting returns the number of lines that wait for a turn.
func (ts *Turns[R, T]) Waiting() int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return len(ts.lines.ready) + len(ts.lines.apart)
}

// Idle returns the number of executors without work.
func (ts *Turns[R, T]) Idle() int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return len(ts.idle)
}

// Stop ends the idle executors, and the others when they become idle. Requests submitted afterwards are still done.
func (ts *Turns[R, T]) Stop() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.stopped = true
	for _, e := range ts.idle {
		close(e.wake)
	}
	ts.idle = nil
}

// Wait returns when no executor is left. Only after Stop. What is submitted afterwards makes new ones.
func (ts *Turns[R, T]) Wait() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for ts.executors > 0 {
		ts.none.Wait()
	}
}

// startable reports whether an ordinary turn, or one of a line alone, may begin. The lock is held.
func (ts *Turns[R, T]) startable() (ordinary, alone bool) {
	return len(ts.lines.ready) > 0 && ts.counts[ordinaryTurn] < ts.options.Turns, len(ts.lines.apart) > 0 && ts.counts[aloneTurn] < maxAlone
}

// dispatch wakes an executor if there is a turn to begin. The executor wakes the next one if there are more. The lock is held.
func (ts *Turns[R, T]) dispatch() {
	if ordinary, alone := ts.startable(); ts.waking || !ordinary && !alone {
		return
	}
	ts.waking = true
	if n := len(ts.idle); n > 0 {
		e := ts.idle[n-1]
		ts.idle = ts.idle[:n-1]
		e.wake <- struct{}{}
		return
	}
	e := newExecutor(&ts.options)
	e.runner.watch = watch{
		began: func() { ts.began(e) }, within: func() { ts.within(e) }, did: func() { ts.did(e) }, ended: func() { ts.ended(e) },
		aside: func() { ts.aside(e) }, lost: ts.lost,
	}
	e.wake <- struct{}{}
	ts.executors++
	go ts.execute(e)
}

// execute has an executor run turns, as long as there are any, whenever it is woken.
func (ts *Turns[R, T]) execute(e *executor[R, T]) {
	defer ts.left()
	for range e.wake {
		for took := time.Duration(0); ts.next(e, took); {
			begun := time.Now()
			e.runner.run(&e.turn)
			took = time.Since(begun)
		}
	}
}

// left counts an executor that has ended.
func (ts *Turns[R, T]) left() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.executors--; ts.executors == 0 {
		ts.none.Broadcast()
	}
}

// next ends the turn of an executor, which took some time, and makes the next one. Without work the executor becomes idle. took
// is 0 when the executor was woken.
func (ts *Turns[R, T]) next(e *executor[R, T], took time.Duration) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if took == 0 {
		ts.waking = false
	}
	for _, s := range e.turn.shares {
		ts.lines.leave(s, took)
	}
	e.turn.end()
	ts.become(e, noTurn)
	for {
		ordinary, alone := ts.startable()
		f := newFilling(&ts.lines, &e.turn)
		switch {
		case ordinary && f.together():
			ts.become(e, ordinaryTurn)
		case !ordinary && alone && f.alone():
			ts.become(e, aloneTurn)
		case ordinary || alone:
			continue // the lines had nothing to give
		default:
			if ts.stopped {
				close(e.wake)
			} else {
				ts.idle = append(ts.idle, e)
			}
			return false
		}
		ts.dispatch()
		return true
	}
}

// become counts a turn as another kind of turn. The lock is held.
func (ts *Turns[R, T]) become(e *executor[R, T], r role) {
	ts.counts[e.role]--
	ts.counts[r]++
	if e.stuck {
		ts.stuck[e.role]--
		ts.stuck[r]++
	}
	e.role = r
}

// aside lets another turn begin: the present one does not count any more.
func (ts *Turns[R, T]) aside(e *executor[R, T]) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if e.role == ordinaryTurn || e.role == slowTurn {
		ts.become(e, noTurn)
		ts.dispatch()
	}
}

// lost has the turns of a line follow one another for a while.
func (ts *Turns[R, T]) lost(key Key) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.lines.serial.add(conflictTime, key)
}

// began says that a transaction is under way: Stuck gets the requests that wait for too long behind it.
func (ts *Turns[R, T]) began(e *executor[R, T]) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	e.busy = true
	e.relief.start(ts.options.Patience.First, func() { ts.relieve(e) })
}

func (ts *Turns[R, T]) ended(e *executor[R, T]) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	e.busy = false
	if e.stuck {
		ts.stuck[e.role]--
		e.stuck = false
	}
}

// within says that the parts of a turn do their work: when that takes long, another turn begins.
func (ts *Turns[R, T]) within(e *executor[R, T]) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	e.within = true
	e.slow.start(ts.options.Slow, func() { ts.yield(e) })
}

func (ts *Turns[R, T]) did(e *executor[R, T]) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	e.within = false
}

// yield lets another turn begin beside a slow one.
func (ts *Turns[R, T]) yield(e *executor[R, T]) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if e.within && e.role == ordinaryTurn && ts.counts[slowTurn] < maxSlow {
		ts.become(e, slowTurn)
		ts.dispatch()
	}
}

// relieve hands back the requests that have waited for too long.
func (ts *Turns[R, T]) relieve(e *executor[R, T]) {
	if late, stuck := ts.late(e); stuck {
		ts.options.Stuck(late)
	}
}

// late removes the requests that have waited for too long behind a turn from their lines, and sets the timer again. While every
// turn that may run is stuck, so are the lines that wait for one. stuck is false when the transaction has ended meanwhile.
func (ts *Turns[R, T]) late(e *executor[R, T]) (late []R, stuck bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if !e.busy {
		return nil, false
	}
	if !e.stuck {
		ts.stuck[e.role]++
		e.stuck = true
	}
	e.relief.start(ts.options.Patience.Then, func() { ts.relieve(e) })
	for _, s := range e.turn.shares {
		late = append(late, ts.lines.late(s.line)...)
	}
	if ts.stuck[ordinaryTurn] >= ts.options.Turns {
		late = append(late, ts.lines.late(ts.lines.ready...)...)
	}
	if ts.stuck[aloneTurn] >= maxAlone {
		late = append(late, ts.lines.late(ts.lines.apart...)...)
	}
	return late, true
}

// filling fills a turn with requests.
type filling[R, T any] struct {
	*lines[R, T]
	turn   *turn[R, T]
	left   allowance[R]
	owners map[string]int // the weight that each owner has in the turn; nil: there are no owners
}

func newFilling[R, T any](ls *lines[R, T], t *turn[R, T]) filling[R, T] {
	o := ls.options
	f := filling[R, T]{lines: ls, turn: t, left: allowance[R]{o.Limits.Requests, o.Limits.Bytes, o.Weight, o.Size}}
	if o.Owner != nil {
		f.owners = make(map[string]int)
	}
	return f
}

// single has each request weigh one: the turn has requests of one line.
func (f *filling[R, T]) single() { f.left.weightOf = func(R) int { return 1 } }

// alone fills the turn with requests of the first line that runs alone. It returns false if there is none.
func (f *filling[R, T]) alone() bool {
	f.single()
	for len(f.apart) > 0 && len(f.turn.shares) == 0 {
		l := f.apart[0]
		f.apart = slices.Delete(f.apart, 0, 1)
		f.open(l, f.left.weight)
	}
	for _, s := range f.turn.shares {
		s.separate = true
	}
	return f.done()
}

// together fills the turn with requests of the lines that may be taken from. First each line may give as much as there is for
// every line, then the same lines give the rest of the room. The lines behind stay for the next turn. It returns false if
// no line gives anything. At least one line has to be there.
func (f *filling[R, T]) together() bool {
	if len(f.ready) == 1 {
		f.single()
	}
	each := max(1, f.left.weight/len(f.ready))
	kept := f.ready[:0]
	for i, l := range f.ready {
		if len(f.turn.shares) > 0 && len(l.pending) > 0 && !f.left.fits(l.pending[0]) {
			kept = append(kept, f.ready[i:]...)
			break
		}
		if f.bounded(l) {
			kept = append(kept, l)
			continue
		}
		f.open(l, each)
	}
	clear(f.ready[len(kept):])
	f.ready = kept
	for i := 0; i < len(f.turn.shares) && !f.left.empty(); i++ {
		f.more(f.turn.shares[i])
	}
	return f.done()
}

// done has the lines of the turn that have more requests wait for others, if turns may overlap.
func (f *filling[R, T]) done() bool {
	for _, s := range f.turn.shares {
		if f.options.Overlap.Turns > 0 && len(s.line.pending) > 0 {
			f.await(s.line)
		}
	}
	return len(f.turn.shares) > 0
}

// bounded reports whether the owner of a line has as much in the turn as all its lines but the first may give.
func (f *filling[R, T]) bounded(l *line[R]) bool {
	if f.owners == nil || len(l.pending) == 0 {
		return false
	}
	has := f.owners[f.options.Owner(l.key.Queue)]
	return has > 0 && has+f.left.weightOf(l.pending[0]) > f.options.Share
}

// open takes requests of a further line, up to a weight, but at least one.
func (f *filling[R, T]) open(l *line[R], weight int) {
	l.listed = false
	s := f.turn.open(l)
	s.woken, l.woken = l.woken, false
	if s.beside = l.turns > 0; !s.beside && l.waits {
		l.waits = false
		l.timer.Stop()
	}
	if len(l.pending) > 0 && !(s.beside && f.blocked(l)) {
		f.take(s, weight, f.options.Share, true)
	}
	if len(s.taken.requests) == 0 && !s.woken {
		f.turn.drop()
		f.forget(l)
		return
	}
	l.turns++
	l.alone = false
}

// more takes further requests of a line. Several owners have equal parts of the turn.
func (f *filling[R, T]) more(s *share[R, T]) {
	if len(s.line.pending) == 0 {
		return
	}
	bound := f.options.Share
	if n := len(f.owners); n > 0 {
		bound = max(bound, f.options.Limits.Requests/n)
	}
	f.take(s, f.left.weight, bound, false)
}

// take takes requests of a line up to a weight. bound is that of an owner who has some already.
func (f *filling[R, T]) take(s *share[R, T], weight, bound int, force bool) {
	left, owner := f.left, ""
	left.weight = min(left.weight, weight)
	if f.owners != nil {
		owner = f.options.Owner(s.line.key.Queue)
		if has := f.owners[owner]; has > 0 {
			left.weight = min(left.weight, bound-has)
		}
	}
	hadWeight, hadBytes := s.taken.weight, s.taken.bytes
	if s.beside {
		s.line.takeBeside(&s.taken, &f.options.Overlap, left, force)
	} else {
		s.line.take(&s.taken, &f.options.Overlap, left, force)
	}
	f.left.weight -= s.taken.weight - hadWeight
	f.left.bytes -= s.taken.bytes - hadBytes
	if f.owners != nil {
		f.owners[owner] += s.taken.weight - hadWeight
	}
}
