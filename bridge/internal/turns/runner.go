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

	lost func(line string) // a transaction of a line alone lost a conflict, and runs again
}

// runner runs a turn: each of its requests is answered, or goes back to its line.
type runner[R, T any] struct {
	options *Options[R, T]
	watch   watch
	shares  []*share[R, T] // with requests that are neither answered nor go back
}

// errSeparate ends a transaction of several lines that would run a second time.
var errSeparate = errors.New("the lines of the turn run one by one")

// run runs a turn.
func (x *runner[R, T]) run(t *turn[R, T]) {
	for _, s := range t.shares {
		if s.todo = s.Open(s.line.key, s.beside, s.taken.requests); len(s.todo) > 0 {
			x.shares = append(x.shares, s)
		}
	}
	if len(x.shares) == 1 && len(t.shares) == 1 {
		x.alone(x.shares[0])
	} else {
		x.together()
	}
	clear(x.shares)
	x.shares = x.shares[:0]
}

// together runs the lines of a turn in one transaction. The line that makes it fail runs alone afterwards, and the others try
// once more. If that fails, too, each of them runs alone.
func (x *runner[R, T]) together() {
	for first := true; len(x.shares) > 0; first = false {
		x.plan()
		if len(x.shares) == 0 {
			return
		}
		culprit, err := x.transaction()
		switch {
		case err == nil || x.options.Outage(err):
			x.answer(err)
			return
		case culprit != nil:
			culprit.apart = true
			culprit.goBack()
			x.shares = slices.DeleteFunc(x.shares, func(s *share[R, T]) bool { return s == culprit })
		case !errors.Is(err, errSeparate):
			for _, s := range x.shares {
				s.apart = true // together they are too much, for example
			}
		}
		if culprit == nil || !first {
			for _, s := range x.shares {
				s.goBack()
			}
			return
		}
	}
}

// plan prepares a transaction. Lines that cannot have a part in it are answered, or run alone afterwards.
func (x *runner[R, T]) plan() {
	x.shares = slices.DeleteFunc(x.shares, func(s *share[R, T]) bool {
		_, err := s.Plan(s.todo)
		switch {
		case err == nil:
			return false
		case s.Common(err):
			s.Answer(s.todo, err)
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
	weight := 0
	for _, s := range x.shares {
		s.Close()
		weight += x.weight(s.todo)
	}
	if err == nil {
		culprit = nil
		x.options.Ran(weight, time.Since(started))
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
	for i, s := range x.shares {
		begun := time.Now()
		_, err := s.Do(tx)
		if s.following = err == ErrFollow; err != nil && !s.following {
			return s, err
		}
		if time.Since(begun) > x.options.Slow && (i > 0 || x.options.Rerun) { // elsewhere the first one waits for the store
			s.apart = true
		}
	}
	return nil, nil
}

// answer ends the requests of all lines, but for those that have to follow other turns.
func (x *runner[R, T]) answer(err error) {
	for _, s := range x.shares {
		if err == nil && s.following {
			s.back, s.follows = s.todo, true
		} else {
			s.Answer(s.todo, err)
		}
	}
}

// alone serves the requests of one line with as few transactions as it can. When a request makes a transaction fail, the
// requests before it run without it, then it runs alone, and then the rest.
func (x *runner[R, T]) alone(s *share[R, T]) {
	requests, part := s.todo, batch.NewPart(len(s.todo))
	for len(requests) > 0 {
		n := part.Len()
		at, err := x.one(s, requests[:n])
		if err == ErrFollow {
			s.back, s.follows = requests, true
			return
		}
		if err != nil && !s.Common(err) && part.Shrink(at) {
			x.watch.aside()
			continue
		}
		s.Answer(requests[:n], err)
		part.Ended(n)
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
		if runs++; runs > 1 {
			x.watch.lost(s.line.key)
		}
		at = len(requests)
		begun := time.Now()
		n, err := s.Do(tx)
		s.apart = s.apart || s.separate && time.Since(begun) > x.options.Slow // it still takes long
		if s.following = err == ErrFollow; s.following {
			return nil
		}
		if err != nil {
			at = n
		}
		return err
	})
	x.watch.ended()
	s.Close()
	s.apart = s.apart || runs > 1 || err != nil && !x.options.Outage(err)
	if err == nil && s.following {
		return at, ErrFollow
	}
	if err == nil {
		x.options.Ran(x.weight(requests), time.Since(started))
	}
	if x.options.Early {
		x.watch.aside()
	}
	return at, err
}

func (x *runner[R, T]) weight(requests []R) (weight int) {
	for _, r := range requests {
		weight += x.options.Weight(r)
	}
	return weight
}
