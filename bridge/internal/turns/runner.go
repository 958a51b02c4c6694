package turns

import (
	"errors"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
)

// watch is told how a turn goes.
type watch struct {
	began  func() // a transaction
	within func() // its parts begin to do their work
	did    func() // they have done it: a commit may follow
	ended  func() // the transaction
	aside  func() // another turn may begin

	lost func(line Key) // a transaction of a line alone lost a conflict, and runs again
}

// runner runs a turn: each of its requests is answered, or goes back to its line.
type runner[R, T any] struct {
	options *Options[R, T]
	watch   watch
	shares  []*share[R, T] // with requests that are neither answered nor go back
	done    map[int]int    // of Options.Ran
}

var (
	// errSeparate ends a transaction of several lines that would run a second time.
	errSeparate = errors.New("the lines of the turn run one by one")

	// errUnsure ends a transaction that a part did not let commit.
	errUnsure = errors.New("a part of the turn has learned something")
)

// run runs a turn.
func (x *runner[R, T]) run(t *turn[R, T]) {
	x.open(t)
	if len(x.shares) == 1 && len(t.shares) == 1 {
		x.alone(x.shares[0])
	} else {
		x.together()
	}
	clear(x.shares)
	x.shares = x.shares[:0]
}

// open has the parts of all lines turn to their requests. Parts of an earlier kind do their work first.
func (x *runner[R, T]) open(t *turn[R, T]) {
	x.watch.within()
	defer x.watch.did()
	last := 0
	for _, s := range t.shares {
		s.Open(Start{Queue: s.line.key.Queue, Beside: s.beside, Woken: s.woken, Alone: len(t.shares) == 1}, s.taken.requests)
		last = max(last, s.line.key.Kind)
	}
	for kind := range last + 1 {
		for _, s := range t.shares {
			if s.line.key.Kind != kind {
				continue
			}
			if s.todo = s.Todo(); len(s.todo) > 0 {
				x.shares = append(x.shares, s)
			}
		}
	}
}

// together runs the lines of a turn in one transaction. The line that makes it fail runs alone afterwards, and the others try
// once more. If that fails, too, each of them runs alone.
func (x *runner[R, T]) together() {
	for failed := false; len(x.shares) > 0; {
		x.plan()
		if len(x.shares) == 0 {
			return
		}
		culprit, err := x.transaction()
		switch {
		case err == nil || x.options.Outage(err):
			x.answer(err)
			return
		case errors.Is(err, errUnsure):
			x.leave(func(s *share[R, T]) bool { return s.unsure })
			continue
		case culprit != nil:
			culprit.apart = true
			x.leave(func(s *share[R, T]) bool { return s == culprit })
		case !errors.Is(err, errSeparate):
			for _, s := range x.shares {
				s.apart = true // together they are too much, for example
			}
		}
		if culprit == nil || failed {
			x.leave(func(*share[R, T]) bool { return true })
		}
		failed = true
	}
}

// leave has lines leave the turn. They run alone next.
func (x *runner[R, T]) leave(which func(*share[R, T]) bool) {
	x.shares = slices.DeleteFunc(x.shares, func(s *share[R, T]) bool {
		leaves := which(s)
		if leaves {
			s.goBack()
		}
		return leaves
	})
}

// plan prepares a transaction. Lines that cannot have a part in it are answered, or run alone afterwards.
func (x *runner[R, T]) plan() {
	x.shares = slices.DeleteFunc(x.shares, func(s *share[R, T]) bool {
		_, err := s.Plan(s.todo)
		switch {
		case err == nil:
			return false
		case s.Common(err):
			s.end(s.todo, err)
		default:
			s.apart = true
			s.goBack()
		}
		return true
	})
}

// transaction runs the transaction that was prepared. It returns the share whose part failed, if that is the reason.
func (x *runner[R, T]) transaction() (culprit *share[R, T], err error) {
	started, ran := time.Now(), false
	x.watch.began()
	err = x.options.Update(func(tx T) (err error) {
		if ran && !x.options.Rerun {
			return errSeparate
		}
		ran = true
		culprit, err = x.do(tx)
		return err
	})
	x.watch.ended()
	if err == nil {
		culprit = nil
		x.ran(started, x.shares...)
	}
	for _, s := range x.shares {
		s.Close(err)
	}
	if x.options.Early {
		x.watch.aside()
	}
	return culprit, err
}

// do does the parts of all lines, and returns the share whose part failed.
func (x *runner[R, T]) do(tx T) (*share[R, T], error) {
	x.watch.within()
	defer x.watch.did()
	if len(x.shares) > 1 {
		for _, s := range x.shares {
			s.Ahead(tx)
		}
	}
	left := x.limits()
	for i, s := range x.shares {
		begun := time.Now()
		_, err := s.Do(tx, &left)
		if s.following = err == ErrFollow; err != nil && !s.following {
			return s, err
		}
		if i > 0 || x.options.Rerun { // elsewhere the first one waits for the store
			x.took(s, time.Since(begun))
		}
	}
	return nil, x.check()
}

// took has a line whose part took long run alone for a while.
func (x *runner[R, T]) took(s *share[R, T], d time.Duration) {
	if d > x.options.Slow {
		s.apart, s.slow = true, max(s.slow, d)
	}
}

// check asks all parts whether the transaction may commit.
func (x *runner[R, T]) check() (err error) {
	for _, s := range x.shares {
		if s.unsure = !s.following && !s.Check(); s.unsure {
			err = errUnsure
		}
	}
	return err
}

// limits is what one transaction has limits for.
func (x *runner[R, T]) limits() Limits {
	return Limits{x.options.Limits.Requests, x.options.Limits.Bytes}
}

// answer ends the requests of all lines, but for those that have to follow other turns.
func (x *runner[R, T]) answer(err error) {
	for _, s := range x.shares {
		if err == nil && s.following {
			s.follows = true
			s.giveBack(s.todo)
		} else {
			s.end(s.todo, err)
		}
	}
}

// alone serves the requests of one line with as few transactions as it can. When a request makes a transaction fail, the
// requests before it run without it, then it runs alone, and then the rest.
func (x *runner[R, T]) alone(s *share[R, T]) {
	requests, bisection := s.todo, batch.NewBisection(len(s.todo))
	for len(requests) > 0 {
		n := bisection.Len()
		at, err := x.one(s, requests[:n])
		switch {
		case err == ErrFollow:
			s.follows = true
			s.giveBack(requests)
			return
		case errors.Is(err, errUnsure):
			continue
		case err != nil && !s.Common(err):
			left, again := s.Mend(requests[:n], at, err)
			if again && len(left) < n {
				requests = slices.Concat(left, requests[n:])
				bisection = batch.NewBisection(len(requests))
			}
			if again || bisection.Shrink(at) {
				x.watch.aside()
				continue
			}
		}
		if !s.end(requests[:n], err) {
			s.giveBack(requests[n:])
			return
		}
		bisection.Ended(n)
		requests = requests[n:]
	}
}

// one runs a transaction of some requests of one line. If that does not commit in its first run, the line runs alone for a
// while; so does one that ran alone and still takes long.
func (x *runner[R, T]) one(s *share[R, T], requests []R) (at int, err error) {
	if at, err = s.Plan(requests); err != nil {
		return at, err
	}
	started, runs := time.Now(), 0
	x.watch.began()
	err = x.options.Update(func(tx T) (err error) {
		x.watch.within()
		defer x.watch.did()
		at = len(requests)
		if runs++; runs > 1 {
			x.watch.lost(s.line.key)
			if err := s.Again(); err != nil {
				return err
			}
		}
		left, begun := x.limits(), time.Now()
		n, err := s.Do(tx, &left)
		if s.separate {
			x.took(s, time.Since(begun)) // perhaps it still takes long
		}
		if s.following = err == ErrFollow; s.following {
			return nil
		}
		if err != nil {
			at = n
			return err
		}
		if !s.Check() {
			return errUnsure
		}
		return nil
	})
	x.watch.ended()
	if err == nil {
		x.ran(started, s)
	}
	s.Close(err)
	s.apart = s.apart || runs > 1 || err != nil && !errors.Is(err, errUnsure) && !x.options.Outage(err)
	if err == nil && s.following {
		return at, ErrFollow
	}
	if x.options.Early {
		x.watch.aside()
	}
	return at, err
}

// ran tells what a transaction has done.
func (x *runner[R, T]) ran(started time.Time, shares ...*share[R, T]) {
	clear(x.done)
	for _, s := range shares {
		if sort, n := s.Ran(); n > 0 && !s.following {
			x.done[sort] += n
		}
	}
	x.options.Ran(x.done, time.Since(started))
}

// executor is a goroutine that runs one turn after another, with its buffers.
type executor[R, T any] struct {
	wake   chan struct{} // closed to end it
	turn   turn[R, T]
	runner runner[R, T]

	// Guarded by the lock of the turns.
	role   role
	busy   bool // a transaction is under way
	stuck  bool // for longer than patience
	within bool // its parts do their work
	relief timer
	slow   timer
}

// role is what an executor counts as.
type role uint8

const (
	noTurn role = iota
	ordinaryTurn
	aloneTurn
	slowTurn // an ordinary turn that takes long, so that another one has begun
	roles
)

func newExecutor[R, T any](o *Options[R, T]) *executor[R, T] {
	return &executor[R, T]{wake: make(chan struct{}, 1), turn: turn[R, T]{part: o.Part}, runner: runner[R, T]{options: o, done: make(map[int]int)}}
}

// timer calls the function of its first start.
type timer struct{ *time.Timer }

// start sets the timer, again or for the first time.
func (t *timer) start(d time.Duration, f func()) {
	if t.Timer == nil {
		t.Timer = time.AfterFunc(d, f)
	} else {
		t.Reset(d)
	}
}
