package batch

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// Shared runs the transactions of many keys, several of them as one. A key that has
// nobody beside it is served at once. While as many transactions are under way as
// may be, jobs wait in a line, and the next transaction takes all that it has room for.
//
// Jobs share only what succeeds. When one of them fails, or the transaction does not
// commit in its first run, each of its jobs runs again in a transaction of its own. A key
// that was the reason runs alone for a while, and so does one whose jobs are large or
// slow: no key holds up others for long.
type Shared[T any] struct {
	options SharedOptions[T]

	mu      sync.Mutex
	running int          // shared transactions that are under way
	line    []*member[T] // that wait for one of them to end
	apart   marks        // keys that run alone
}

// SharedOptions configure shared transactions. All are required but Owner and Share.
type SharedOptions[T any] struct {
	// Update runs a transaction, several times if it has to, and commits it.
	Update func(context.Context, func(T) error) error

	// Outage reports whether an error of Update concerns every job, so that running them
	// one by one would not help.
	Outage func(error) bool

	// Running is how many shared transactions are under way at a time.
	Running int

	// Weight and Bytes bound the jobs of one transaction. A job that takes up a large part
	// of them runs alone.
	Weight, Bytes int

	// Owner is whose a key is, and Share the weight that one owner has in a transaction at most: what does
	// not fit goes into the next one, and others' jobs that came later pass it. Without Owner nobody has such a bound.
	Owner func(key string) string
	Share int

	// Slow is how long a job may take. One that takes longer runs alone from then on.
	Slow time.Duration
}

// Job is what a key has to do in a transaction.
type Job[T any] struct {
	Key    string
	Weight int // how much there is to do, in requests or items
	Bytes  int

	// Begin, if it is there, is called when the transaction has read nothing yet for any of
	// its jobs. Only then may a job grow: what is asked for later must see what was
	// committed before it was asked for, which an earlier read may not show.
	Begin func()

	// Again, if it is there, is called before a transaction of this job alone runs again,
	// because of a conflict. Its error ends the transaction.
	Again func() error

	// Prefetch, if it is there, says what Do will read, so that the reads of all jobs are
	// under way at the same time.
	Prefetch func(T)

	// Do may run several times, after Begin. Its effects are those of the last run.
	Do func(T) error

	// Check, if it is there, is called when all jobs of the transaction were done, before it commits. If one of them
	// returns ErrAgain, all of them are checked, and the transaction begins again. That keeps no key apart.
	Check func() error
}

// ErrAgain has a transaction begin again: a job knows what it did not know when it was done.
var ErrAgain = errors.New("the transaction begins again")

const (
	largePart = 4           // of the bounds: a job that takes more runs alone
	apartTime = time.Second // for which a key runs alone
)

// errApart ends a shared transaction whose jobs have to run one by one.
var errApart = errors.New("the jobs of the transaction run one by one")

// member is a job that shares a transaction, or waits for one.
type member[T any] struct {
	Job[T]
	ctx  context.Context
	told chan outcome[T]
}

// outcome is what became of a member of the line, or what it has to do.
type outcome[T any] struct {
	lead  []*member[T] // run these, itself first
	alone bool         // run alone
	err   error
}

// NewShared returns shared transactions, none of which is under way.
func NewShared[T any](o SharedOptions[T]) *Shared[T] {
	return &Shared[T]{options: o, apart: make(marks)}
}

// Update does a job in a transaction, until ctx ends, and returns its error or that of
// the transaction.
func (s *Shared[T]) Update(ctx context.Context, job Job[T]) error {
	m := &member[T]{Job: job, ctx: ctx}
	s.mu.Lock()
	switch {
	case job.Weight > s.options.Weight/largePart || job.Bytes > s.options.Bytes/largePart || s.apart.has(job.Key):
		s.mu.Unlock()
		return s.alone(m)
	case s.running < s.options.Running:
		s.running++
		s.mu.Unlock()
		return s.lead([]*member[T]{m})
	}
	m.told = make(chan outcome[T], 1)
	s.line = append(s.line, m)
	s.mu.Unlock()
	return s.await(m)
}

// Waiting returns how many jobs wait in the line.
func (s *Shared[T]) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.line)
}

// await waits for a member's turn in the line.
func (s *Shared[T]) await(m *member[T]) error {
	var o outcome[T]
	select {
	case o = <-m.told:
	case <-m.ctx.Done():
		if s.leave(m) {
			return m.ctx.Err()
		}
		o = <-m.told
	}
	switch {
	case o.lead != nil:
		return s.lead(o.lead)
	case o.alone:
		return s.alone(m)
	}
	return o.err
}

// leave takes a member out of the line. It returns false when the member is not there.
func (s *Shared[T]) leave(m *member[T]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.line {
		if s.line[i] == m {
			s.line = append(s.line[:i], s.line[i+1:]...)
			return true
		}
	}
	return false
}

// lead runs the jobs of members in one transaction. The caller's own is the first.
func (s *Shared[T]) lead(members []*member[T]) error {
	own := members[0]
	if len(members) == 1 {
		err := s.alone(own)
		s.passOn()
		return err
	}
	ran := false
	var culprit *member[T]
	err := s.update(own.ctx, &ran, func(tx T) (err error) {
		if ran {
			return errApart
		}
		ran = true
		culprit, err = s.do(tx, members)
		return err
	})
	s.passOn()
	apart := err != nil && !s.options.Outage(err)
	if apart && culprit != nil {
		s.mark(culprit.Key)
	} else if apart && !errors.Is(err, errApart) {
		s.mark(keys(members)...) // together they are too much, for one
	}
	for _, m := range members[1:] {
		m.told <- outcome[T]{alone: apart, err: err}
	}
	if apart {
		return s.alone(own)
	}
	return err
}

// update runs a transaction, and again from its beginning when a job says so. ran tells fn whether it runs again
// for another reason.
func (s *Shared[T]) update(ctx context.Context, ran *bool, fn func(T) error) error {
	for {
		*ran = false
		if err := s.options.Update(ctx, fn); !errors.Is(err, ErrAgain) {
			return err
		}
	}
}

// do does the jobs, and returns the one that failed.
func (s *Shared[T]) do(tx T, members []*member[T]) (culprit *member[T], err error) {
	for _, m := range members {
		if m.Begin != nil {
			m.Begin()
		}
	}
	if len(members) > 1 {
		for _, m := range members {
			if m.Prefetch != nil {
				m.Prefetch(tx)
			}
		}
	}
	for i, m := range members {
		begun := time.Now()
		if err := m.Do(tx); err != nil {
			return m, err
		}
		if i > 0 && time.Since(begun) > s.options.Slow { // the first one waits for the store
			s.mark(m.Key)
		}
	}
	return check(members)
}

// check checks the jobs, and returns the one that failed.
func check[T any](members []*member[T]) (culprit *member[T], again error) {
	for _, m := range members {
		if m.Check == nil {
			continue
		}
		err := m.Check()
		if err != nil && !errors.Is(err, ErrAgain) {
			return m, err
		}
		again = cmp.Or(again, err)
	}
	return nil, again
}

// alone runs the job of a member in a transaction of its own. A key that does not succeed in
// the first run is kept apart.
func (s *Shared[T]) alone(m *member[T]) error {
	ran, twice := false, false
	err := s.update(m.ctx, &ran, func(tx T) error {
		if ran && m.Again != nil {
			if err := m.Again(); err != nil {
				return err
			}
		}
		ran, twice = true, twice || ran
		_, err := s.do(tx, []*member[T]{m})
		return err
	})
	if err != nil && !s.options.Outage(err) || err == nil && twice {
		s.mark(m.Key)
	}
	return err
}

// passOn lets the next members of the line run a transaction, in place of one that has
// ended.
func (s *Shared[T]) passOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.next()
	if len(next) == 0 {
		s.running--
		return
	}
	next[0].told <- outcome[T]{lead: next}
}

// next takes from the line what the next transaction has room for. An owner's jobs stay in their order.
func (s *Shared[T]) next() (next []*member[T]) {
	weight, bytes, shares := 0, 0, make(map[string]int)
	left := s.line[:0]
	for i, m := range s.line {
		if len(next) > 0 && (weight+m.Weight > s.options.Weight || bytes+m.Bytes > s.options.Bytes) {
			left = append(left, s.line[i:]...)
			break
		}
		if s.options.Owner != nil {
			owner := s.options.Owner(m.Key)
			has := shares[owner]
			shares[owner] += m.Weight
			if has > 0 && has+m.Weight > s.options.Share {
				left = append(left, m)
				continue
			}
		}
		weight, bytes = weight+m.Weight, bytes+m.Bytes
		next = append(next, m)
	}
	clear(s.line[len(left):])
	s.line = left
	return next
}

// mark has keys run alone for a while.
func (s *Shared[T]) mark(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apart.add(apartTime, keys...)
}

func keys[T any](members []*member[T]) (keys []string) {
	for _, m := range members {
		keys = append(keys, m.Key)
	}
	return keys
}
