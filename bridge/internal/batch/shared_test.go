package batch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
)

// run is a transaction: who has a part in it.
type run struct {
	jobs []string
	end  chan error // its result
}

func (r *run) String() string { return strings.Join(r.jobs, " ") }

// ledger is a store whose transactions end when the test says so.
type ledger struct {
	shared *batch.Shared[*run]
	runs   chan *run

	mu      sync.Mutex
	calls   []string // of the parts of jobs
	results map[string]error
	again   map[string]bool
	checks  map[string]func() error
	under   sync.WaitGroup
}

var (
	errAway = errors.New("the store is away")
	errLoss = errors.New("conflict") // the transaction runs again
)

// newLedger is for a test within synctest.
func newLedger(running int) *ledger {
	l := &ledger{runs: make(chan *run), results: make(map[string]error), again: make(map[string]bool)}
	l.shared = batch.NewShared(batch.SharedOptions[*run]{
		Update:  l.update,
		Outage:  func(err error) bool { return errors.Is(err, errAway) || errors.Is(err, context.DeadlineExceeded) },
		Running: running, Weight: 40, Bytes: 4000, Slow: 20 * time.Millisecond,
		Owner: func(key string) string { return key[:1] }, Share: 10,
	})
	return l
}

func (l *ledger) update(_ context.Context, fn func(*run) error) error {
	for {
		r := &run{end: make(chan error)}
		if err := fn(r); err != nil {
			return err
		}
		l.runs <- r
		if err := <-r.end; err != errLoss {
			return err
		}
	}
}

// submit does a job of a key, or, as "key.2", another one of it. fails is asked for the job's
// error in each run.
func (l *ledger) submit(ctx context.Context, key string, weight int, fails func() error) {
	of, _, _ := strings.Cut(key, ".")
	l.under.Go(func() {
		again := false
		err := l.shared.Update(ctx, batch.Job[*run]{
			Again: func() error { again = true; return nil },
			Key:   of, Weight: weight, Bytes: 1,
			Begin:    func() { l.called("begin", key) },
			Prefetch: func(*run) { l.called("prefetch", key) },
			Do: func(r *run) error {
				l.called("do", key)
				if fails != nil {
					if err := fails(); err != nil {
						return err
					}
				}
				r.jobs = append(r.jobs, key)
				return nil
			},
			Check: l.checks[key],
		})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.results[key], l.again[key] = err, again
	})
	synctest.Wait()
}

func (l *ledger) called(what, key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, what+" "+key)
}

// expect is the next transaction.
func (l *ledger) expect(t *testing.T, want string) *run {
	t.Helper()
	r := <-l.runs
	if r.String() != want {
		t.Errorf("a transaction of %q, expected %q", r, want)
	}
	return r
}

// hold begins a transaction. Where one alone may be under way, jobs wait for its end.
func (l *ledger) hold(t *testing.T) *run {
	t.Helper()
	l.submit(t.Context(), "held", 1, nil)
	return l.expect(t, "held")
}

// each are the next transactions, of one job each, in any order. All of them commit.
func (l *ledger) each(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for range want {
		r := <-l.runs
		got = append(got, r.String())
		r.end <- nil
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("transactions of %q, expected %q", got, want)
	}
}

func (l *ledger) ended(t *testing.T, key string, want error, again bool) {
	t.Helper()
	l.under.Wait()
	begun := false
	for _, call := range l.calls {
		if call == "do "+key && !begun {
			t.Errorf("%s was done without a beginning: %s", key, strings.Join(l.calls, ", "))
		}
		begun = call == "begin "+key || begun && call != "do "+key
	}
	if err, done := l.results[key]; !done || !errors.Is(err, want) || want == nil && err != nil || l.again[key] != again {
		t.Errorf("%s: %v, again: %t, done: %t; expected %v, again: %t", key, err, l.again[key], done, want, again)
	}
}

// A job is done at once while few are. Those that come meanwhile share the next
// transaction, in their order: all of them begin, all say what they read, all do it.
func TestSharedTransactions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(2)
		l.submit(t.Context(), "a", 1, nil)
		l.submit(t.Context(), "b", 1, nil)
		for _, key := range []string{"c", "d", "e"} {
			l.submit(t.Context(), key, 1, nil)
		}
		first := <-l.runs
		second := <-l.runs
		if names := []string{first.String(), second.String()}; !slices.Contains(names, "a") || !slices.Contains(names, "b") {
			t.Errorf("transactions of %q, expected one of a and one of b", names)
		}
		l.calls = nil
		first.end <- nil
		third := l.expect(t, "c d e")
		if got, want := strings.Join(l.calls, ", "), "begin c, begin d, begin e, prefetch c, prefetch d, prefetch e, do c, do d, do e"; got != want {
			t.Errorf("called: %s; expected %s", got, want)
		}
		third.end <- nil
		second.end <- nil
		for _, key := range []string{"a", "b", "c", "d", "e"} {
			l.ended(t, key, nil, false)
		}
		l.submit(t.Context(), "a", 1, nil) // nothing is under way
		l.expect(t, "a").end <- nil
		l.under.Wait()
	})
}

// A shared transaction is bounded. A large job neither waits nor has others wait.
func TestSharedTransactionIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(1)
		held := l.hold(t)
		for _, key := range strings.Split("abcdef", "") {
			l.submit(t.Context(), key, 10, nil)
		}
		l.submit(t.Context(), "large", 11, nil)
		l.expect(t, "large").end <- nil
		held.end <- nil
		l.expect(t, "a b c d").end <- nil
		l.expect(t, "e f").end <- nil
		l.under.Wait()
	})
}

// What one owner has in a transaction is bounded. The rest of it waits for the next one, in its order, and others' jobs pass it.
func TestShareOfOneOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(1)
		held := l.hold(t)
		for _, job := range []struct {
			key    string
			weight int
		}{{"a1", 6}, {"a2", 4}, {"a3", 5}, {"a4", 1}, {"b1", 10}, {"a5", 5}, {"b2", 1}, {"c1", 9}, {"d1", 9}} {
			l.submit(t.Context(), job.key, job.weight, nil)
		}
		held.end <- nil
		l.expect(t, "a1 a2 b1 c1 d1").end <- nil
		l.expect(t, "a3 a4 b2").end <- nil
		l.expect(t, "a5").end <- nil
		l.under.Wait()
	})
}

// A job that fails takes no other with it: each runs alone. Its key does so for a while.
func TestFailureOfOneJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(1)
		broken := errors.New("this job cannot be done")
		held := l.hold(t)
		l.submit(t.Context(), "a", 1, nil)
		l.submit(t.Context(), "b", 1, func() error { return broken })
		l.submit(t.Context(), "c", 1, nil)
		held.end <- nil
		l.each(t, "a", "c")
		l.ended(t, "a", nil, false)
		l.ended(t, "b", broken, false)
		l.ended(t, "c", nil, false)

		held = l.hold(t)
		l.submit(t.Context(), "b", 1, nil)
		l.expect(t, "b").end <- nil
		<-time.After(1100 * time.Millisecond)
		l.submit(t.Context(), "b", 1, nil)
		l.submit(t.Context(), "c", 1, nil)
		held.end <- nil
		l.expect(t, "b c").end <- nil
		l.under.Wait()
	})
}

// Jobs whose transaction has a conflict run alone, once each. The one that has it
// again is told so, and runs alone for a while.
func TestConflictOfSharedTransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(1)
		held := l.hold(t)
		l.submit(t.Context(), "a", 1, nil)
		l.submit(t.Context(), "b", 1, nil)
		held.end <- nil
		l.expect(t, "a b").end <- errLoss
		for range 2 {
			switch r := <-l.runs; r.String() {
			case "a":
				r.end <- nil
			default:
				r.end <- errLoss
				l.expect(t, "b").end <- nil
			}
		}
		l.ended(t, "a", nil, false)
		l.ended(t, "b", nil, true)

		held = l.hold(t)
		l.submit(t.Context(), "a", 1, nil)
		l.submit(t.Context(), "b", 1, nil)
		l.expect(t, "b").end <- nil
		held.end <- nil
		l.expect(t, "a").end <- nil
		l.under.Wait()
	})
}

// An outage ends all jobs of a transaction. None is tried alone.
func TestOutageOfSharedTransaction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(1)
		held := l.hold(t)
		l.submit(t.Context(), "a", 1, nil)
		l.submit(t.Context(), "b", 1, nil)
		held.end <- nil
		l.expect(t, "a b").end <- errAway
		l.ended(t, "a", errAway, false)
		l.ended(t, "b", errAway, false)
	})
}

// Jobs that are together too much for a transaction run alone, now and for a while.
func TestTooMuchTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(1)
		for range 2 {
			held := l.hold(t)
			l.submit(t.Context(), "a", 1, nil)
			l.submit(t.Context(), "b", 1, nil)
			if len(l.results) < 2 {
				held.end <- nil
				l.expect(t, "a b").end <- errors.New("too large")
				l.each(t, "a", "b")
			} else {
				l.each(t, "a", "b")
				held.end <- nil
			}
			l.under.Wait()
		}
	})
}

// A slow job runs alone from then on, for a while.
func TestSlowJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(1)
		held := l.hold(t)
		l.submit(t.Context(), "a", 1, nil)
		l.submit(t.Context(), "slow", 1, func() error { <-time.After(21 * time.Millisecond); return nil })
		held.end <- nil
		l.expect(t, "a slow").end <- nil
		l.under.Wait()
		held = l.hold(t)
		l.submit(t.Context(), "a", 1, nil)
		l.submit(t.Context(), "slow", 1, nil)
		l.expect(t, "slow").end <- nil
		held.end <- nil
		l.expect(t, "a").end <- nil
		l.under.Wait()
	})
}

// A job leaves the line when its time is up, and is not done.
func TestLineOfJobsIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(1)
		held := l.hold(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		l.submit(ctx, "a", 1, nil)
		l.submit(t.Context(), "b", 1, nil)
		<-time.After(time.Second)
		synctest.Wait()
		if err := l.results["a"]; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a: %v, expected that its time is up", err)
		}
		held.end <- nil
		l.expect(t, "b").end <- nil
		l.under.Wait()
	})
}

// Jobs of one key may share a transaction. If that fails, they run alone, each of them once,
// and the key runs alone for a while.
func TestTwoJobsOfOneKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(1)
		// together has the jobs share a transaction.
		together := func(want string, fails func() error) {
			t.Helper()
			held := l.hold(t)
			l.calls = nil
			l.submit(t.Context(), "a", 1, nil)
			l.submit(t.Context(), "a.2", 1, fails)
			l.submit(t.Context(), "b", 1, nil)
			held.end <- nil
			synctest.Wait()
			if calls := strings.Join(l.calls, ", "); !strings.HasPrefix(calls, want) {
				t.Errorf("the jobs were called: %s; expected %s", calls, want)
			}
		}
		const begun = "begin a, begin a.2, begin b, prefetch a, prefetch a.2, prefetch b, "
		together(begun+"do a, do a.2, do b", nil)
		l.expect(t, "a a.2 b").end <- nil
		for _, key := range []string{"a", "a.2", "b"} {
			l.ended(t, key, nil, false)
		}
		together(begun+"do a, do a.2, do b", nil)
		l.expect(t, "a a.2 b").end <- errLoss
		l.each(t, "a", "a.2", "b")
		for _, key := range []string{"a", "a.2", "b"} {
			l.ended(t, key, nil, false)
		}
		failed := false
		together(begun+"do a, do a.2", func() error {
			if failed {
				return nil
			}
			failed = true
			return errors.New("not beside the other one")
		})
		l.each(t, "a", "a.2", "b")
		for _, key := range []string{"a", "a.2", "b"} {
			l.ended(t, key, nil, false)
		}

		held := l.hold(t)
		l.submit(t.Context(), "a", 1, nil)
		l.submit(t.Context(), "a.2", 1, nil)
		l.each(t, "a", "a.2")
		held.end <- nil
		l.under.Wait()
	})
}

// When a job says at the end that it has to be done again, all of the transaction are, together, and none is kept apart.
func TestTransactionBeginsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(1)
		var checked []string
		twice := func(key string, times int, err error) func() error {
			return func() error {
				checked = append(checked, key)
				if times--; times >= 0 {
					return err
				}
				return nil
			}
		}
		l.checks = map[string]func() error{"a": twice("a", 1, batch.ErrAgain), "b": twice("b", 1, batch.ErrAgain), "c": twice("c", 0, nil)}
		held := l.hold(t)
		for _, key := range []string{"a", "b", "c"} {
			l.submit(t.Context(), key, 1, nil)
		}
		held.end <- nil
		l.expect(t, "a b c").end <- nil
		for _, key := range []string{"a", "b", "c"} {
			l.ended(t, key, nil, false)
		}
		if got := strings.Join(checked, " "); got != "a b c a b c" {
			t.Errorf("checked %s", got)
		}

		l.checks = map[string]func() error{"a": twice("a", 1, batch.ErrAgain)}
		l.submit(t.Context(), "a", 1, nil) // alone
		l.expect(t, "a").end <- nil
		l.ended(t, "a", nil, false)

		held = l.hold(t)
		l.checks = nil
		for _, key := range []string{"b", "a"} {
			l.submit(t.Context(), key, 1, nil)
		}
		held.end <- nil
		l.expect(t, "b a").end <- nil // none of them was kept apart

		l.checks = map[string]func() error{"c": twice("c", 1, errLoss)}
		held = l.hold(t)
		for _, key := range []string{"b", "c"} {
			l.submit(t.Context(), key, 1, nil)
		}
		held.end <- nil
		l.each(t, "b", "c") // an error of a check fails the transaction
		l.ended(t, "c", nil, false)
	})
}
