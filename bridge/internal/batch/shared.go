package batch

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/marks"
)

// Shared runs the jobs of many keys, several jobs in one transaction. A job begins at once while fewer transactions
// are under way than [SharedOptions].Running. Otherwise it waits in a line, and the next transaction takes as many
// jobs of the line as it has room for.
//
// Jobs share only a transaction that succeeds. When one of them fails, or the transaction does not commit in its first
// run, each of its jobs runs again in a transaction of its own. The key that was the reason runs alone for a while, and
// so does a key whose jobs are large or slow: no key holds up others for long.
type Shared[T any] struct {
	options SharedOptions[T]

	mu           sync.Mutex
	running      int          // shared transactions that are under way
	waitingJobs  []*member[T] // the line
	separateKeys marks.Marks  // keys whose jobs run alone
}

// SharedOptions configure shared transactions. All are required but Owner and Share.
type SharedOptions[T any] struct {
	// Update runs a transaction, several times if it has to, and commits it.
	Update func(context.Context, func(T) error) error

	// Outage reports whether an error of Update concerns every job, so that running them
	// one by one would not help.
	Outage func(error) bool

	// Running is the number of shared transactions that may be under way at a time.
	Running int

	// Weight and Bytes bound the jobs of one transaction. A job that takes up a large part
	// of them runs alone.
	Weight, Bytes int

	// Owner returns the owner of a key. Share bounds the weight that one owner has in a transaction. Jobs beyond that
	// go into the next transaction, and later jobs of other owners pass them. Without Owner there is no such bound.
	Owner func(key string) string
	Share int

	// Slow is how long a job may take. The key of a job that takes longer runs alone for a while.
	Slow time.Duration
}

// Job is what a key has to do in a transaction.
type Job[T any] struct {
	Key    string
	Weight int // how much there is to do, in requests or items
	Bytes  int

	// Begin, if it is there, is called before the transaction reads anything for any of its jobs. Only here may a job
	// take in further requests: a request must see the commits that preceded it, and an earlier read may miss these.
	Begin func()

	// Again, if it is there, is called before a transaction of this job alone runs again,
	// because of a conflict. Its error ends the transaction.
	Again func() error

	// Prefetch, if it is there, says what Do will read, so that the reads of all jobs are
	// under way at the same time.
	Prefetch func(T)

	// Do may run several times, after Begin. Its effects are those of the last run.
	Do func(T) error

	// Check, if it is there, is called when all jobs of the transaction were done, before it commits. If the check of
	// one job returns ErrAgain, the other jobs are checked, too, and the transaction begins again. No key runs alone
	// for that.
	Check func() error
}

// ErrAgain has a transaction begin again: a job has learned something since Do ran.
var ErrAgain = errors.New("the transaction begins again")

const (
	largePart    = 4           // a job that takes more than this part of the bounds runs alone
	separateTime = time.Second // how long a key runs alone
)

// errSeparate ends a shared transaction that would run a second time: its jobs run one by one.
var errSeparate = errors.New("the jobs of the transaction run one by one")

// member is a job that shares a transaction, or waits for one.
type member[T any] struct {
	Job[T]
	ctx    context.Context
	result chan outcome[T] // of a member of the line
}

// outcome is the result of a member of the line, or the work that it has to do.
type outcome[T any] struct {
	lead  []*member[T] // run the jobs of these members in one transaction; the member itself is the first
	alone bool         // run the job alone
	err   error
}

// NewShared returns shared transactions, none of which is under way.
func NewShared[T any](o SharedOptions[T]) *Shared[T] {
	return &Shared[T]{options: o, separateKeys: make(marks.Marks)}
}

// Update does a job in a transaction, until ctx ends, and returns its error or that of
// the transaction.
func (s *Shared[T]) Update(ctx context.Context, job Job[T]) error {
	m := &member[T]{Job: job, ctx: ctx}
	s.mu.Lock()
	switch {
	case job.Weight > s.options.Weight/largePart || job.Bytes > s.options.Bytes/largePart || s.separateKeys.Has(job.Key):
		s.mu.Unlock()
		return s.runAlone(m)
	case s.running < s.options.Running:
		s.running++
		s.mu.Unlock()
		return s.lead([]*member[T]{m})
	}
	m.result = make(chan outcome[T], 1)
	s.waitingJobs = append(s.waitingJobs, m)
	s.mu.Unlock()
	return s.await(m)
}

// Waiting returns the number of jobs in the line.
func (s *Shared[T]) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waitingJobs)
}

// await waits for the outcome of a member of the line.
func (s *Shared[T]) await(m *member[T]) error {
	var o outcome[T]
	select {
	case o = <-m.result:
	case <-m.ctx.Done():
		if s.leave(m) {
			return m.ctx.Err()
		}
		o = <-m.result
	}
	switch {
	case o.lead != nil:
		return s.lead(o.lead)
	case o.alone:
		return s.runAlone(m)
	}
	return o.err
}

// leave takes a member out of the line. It returns false when the member is not there.
func (s *Shared[T]) leave(m *member[T]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.waitingJobs {
		if s.waitingJobs[i] == m {
			s.waitingJobs = append(s.waitingJobs[:i], s.waitingJobs[i+1:]...)
			return true
		}
	}
	return false
}

// lead runs the jobs of members in one transaction. The first member is the caller's.
func (s *Shared[T]) lead(members []*member[T]) error {
	own := members[0]
	if len(members) == 1 {
		err := s.runAlone(own)
		s.passOn()
		return err
	}
	ran := false
	var culprit *member[T]
	err := s.update(own.ctx, &ran, func(tx T) (err error) {
		if ran {
			return errSeparate
		}
		ran = true
		culprit, err = s.do(tx, members)
		return err
	})
	s.passOn()
	separate := err != nil && !s.options.Outage(err)
	if separate && culprit != nil {
		s.mark(culprit.Key)
	} else if separate && !errors.Is(err, errSeparate) {
		s.mark(keys(members)...) // together they are too much, for example
	}
	for _, m := range members[1:] {
		m.result <- outcome[T]{alone: separate, err: err}
	}
	if separate {
		return s.runAlone(own)
	}
	return err
}

// update runs a transaction, and begins it again while it returns ErrAgain. *ran is false when the transaction begins,
// so fn can tell a rerun because of a conflict.
func (s *Shared[T]) update(ctx context.Context, ran *bool, fn func(T) error) error {
	for {
		*ran = false
		if err := s.options.Update(ctx, fn); !errors.Is(err, ErrAgain) {
			return err
		}
	}
}

// do does the jobs, and returns the member whose job failed.
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

// check checks the jobs, and returns the member whose check failed.
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

// runAlone runs the job of a member in a transaction of its own. If that does not commit in its first run, the key
// runs alone for a while.
func (s *Shared[T]) runAlone(m *member[T]) error {
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

// passOn lets the next members of the line run a transaction, in place of the transaction that has ended.
func (s *Shared[T]) passOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.next()
	if len(next) == 0 {
		s.running--
		return
	}
	next[0].result <- outcome[T]{lead: next}
}

// next takes the jobs of the next transaction from the line. Jobs of one owner stay in their order.
func (s *Shared[T]) next() (next []*member[T]) {
	weight, bytes, shares := 0, 0, make(map[string]int)
	left := s.waitingJobs[:0]
	for i, m := range s.waitingJobs {
		if len(next) > 0 && (weight+m.Weight > s.options.Weight || bytes+m.Bytes > s.options.Bytes) {
			left = append(left, s.waitingJobs[i:]...)
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
	clear(s.waitingJobs[len(left):])
	s.waitingJobs = left
	return next
}

// mark has keys run alone for a while.
func (s *Shared[T]) mark(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.separateKeys.Add(separateTime, keys...)
}

func keys[T any](members []*member[T]) (keys []string) {
	for _, m := range members {
		keys = append(keys, m.Key)
	}
	return keys
}
