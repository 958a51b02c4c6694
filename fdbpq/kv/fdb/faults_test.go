//go:build fdb

package fdb_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
)

// result waits for the end of a call that must end soon, whatever happened to
// the cluster.
func result(t *testing.T, what string, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(30 * time.Second):
		t.Fatalf("%s did not end", what)
		return nil
	}
}

// TestPaused: while the cluster does not answer, calls end with their contexts
// and say what is certain; those whose contexts last go on when it is back.
func TestPaused(t *testing.T) {
	nightly.Only(t, "it pauses a cluster; TestJudge has what each failure of the client library says")
	cluster := fdbtest.New(t, 1)
	db := open(t, cluster, "p/")
	update(t, db, func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("before")); return nil })
	var pending *kv.Watch
	update(t, db, func(tx kv.Tx) error { pending = tx.Watch([]byte("k")); return nil })
	goroutines := runtime.NumGoroutine()

	get := func(r kv.Reader) error { _, err := r.Get([]byte("k")); return err }
	calls := map[string]func(ctx context.Context) error{
		"View with Get": func(ctx context.Context) error { return db.View(ctx, get) },
		"View with GetAll": func(ctx context.Context) error {
			return db.View(ctx, func(r kv.Reader) error {
				_, err := r.GetAll([][]byte{[]byte("k"), []byte("l")})
				return err
			})
		},
		"View with Range": func(ctx context.Context) error {
			return db.View(ctx, func(r kv.Reader) error {
				_, err := r.Range(nil, []byte("z"), kv.RangeOptions{Limit: 10, MaxBytes: 100})
				return err
			})
		},
		"Update that reads": func(ctx context.Context) error {
			return db.Update(ctx, func(tx kv.Tx) error { tx.Set([]byte("l"), nil); return get(tx) })
		},
		"Update that watches": func(ctx context.Context) error {
			return db.Update(ctx, func(tx kv.Tx) error { tx.Watch([]byte("k")); return nil })
		},
	}
	cluster.Pause(t)
	for what, call := range calls {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		cancel()
		err := result(t, what, ended)
		if !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("%s, cancelled: got error %v, expected one that is both ErrUnavailable and Canceled", what, err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		go func() { ended <- call(ctx) }()
		err = result(t, what, ended)
		if !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s, out of time: got error %v, expected one that is both ErrUnavailable and DeadlineExceeded", what, err)
		}
	}
	lasting := make(chan error, len(calls))
	for _, call := range calls {
		go func() { lasting <- call(t.Context()) }()
	}
	cluster.Resume(t)
	for range calls {
		if err := result(t, "a call whose context lasts", lasting); err != nil {
			t.Errorf("a call that waited for the cluster ended with %v", err)
		}
	}
	update(t, db, func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("after")); return nil })
	<-pending.Done()
	for db.Metrics().Watches > 0 {
		runtime.Gosched()
	}
	awaitGoroutines(t, goroutines)
}

// awaitGoroutines fails the test unless there are soon no more than limit goroutines.
func awaitGoroutines(t *testing.T, limit int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for runtime.NumGoroutine() > limit {
		if time.Now().After(deadline) {
			buffer := make([]byte, 1<<20)
			t.Fatalf("%d goroutines are left, expected %d at most:\n%s", runtime.NumGoroutine(), limit, buffer[:runtime.Stack(buffer, true)])
		}
		runtime.Gosched()
	}
}

// TestPausedCommit: when its context ends, a call waits a little longer for a commit that was sent; then it reports
// that the result is unknown, and that is the truth.
func TestPausedCommit(t *testing.T) {
	nightly.Only(t, "it pauses a cluster; TestJudge has what each failure of the client library says")
	cluster := fdbtest.New(t, 1)
	db := open(t, cluster, "p/")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- db.Update(ctx, func(tx kv.Tx) error {
			if _, err := tx.Get([]byte("k")); err != nil {
				return err
			}
			tx.Set([]byte("k"), []byte("x"))
			cluster.Pause(t)
			go func() {
				for !fdb.Committing(tx) {
					runtime.Gosched()
				}
				cancel()
			}()
			return nil
		})
	}()
	err := result(t, "Update", ended)
	if !errors.Is(err, kv.ErrUnknown) {
		t.Errorf("got error %v, expected ErrUnknown", err)
	}
	if n := db.Metrics().Unknown; n != 1 {
		t.Errorf("counted %d unknown results, expected 1", n)
	}
	cluster.Resume(t)
	// It may take effect or not, but the store goes on.
	update(t, db, func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("y")); return nil })
}

// tally runs transactions that each write a row of their own and count it in one row, and
// records the results.
type tally struct {
	db      kv.DB
	next    atomic.Uint64
	news    chan struct{} // a value for each row that was acknowledged
	mu      sync.Mutex
	done    map[uint64]bool // rows that were acknowledged
	unknown map[uint64]bool // rows of which nobody knows whether they were written
	failed  map[uint64]bool // rows that certainly were not written
}

func newTally(db kv.DB) *tally {
	return &tally{db: db, news: make(chan struct{}, 1_000_000), done: map[uint64]bool{}, unknown: map[uint64]bool{}, failed: map[uint64]bool{}}
}

func (y *tally) row(n uint64) []byte { return fmt.Appendf(nil, "row/%08d", n) }

// write does one transaction.
func (y *tally) write(ctx context.Context) error {
	n := y.next.Add(1)
	err := y.db.Update(ctx, func(tx kv.Tx) error {
		if _, err := tx.Get([]byte("state")); err != nil {
			return err
		}
		tx.Set(y.row(n), nil)
		tx.Add([]byte("count"), 1)
		return nil
	})
	y.mu.Lock()
	defer y.mu.Unlock()
	switch {
	case err == nil:
		y.done[n] = true
		y.news <- struct{}{}
	case errors.Is(err, kv.ErrUnknown):
		y.unknown[n] = true
	case errors.Is(err, kv.ErrUnavailable):
		y.failed[n] = true
	default:
		return err
	}
	return nil
}

// check compares the store with the tally.
func (y *tally) check(t *testing.T) {
	t.Helper()
	there, count := map[string]bool{}, uint64(0)
	begin := []byte("row/")
	for {
		var pairs []kv.Pair
		err := y.db.View(t.Context(), func(r kv.Reader) error {
			value, err := r.Get([]byte("count"))
			if err != nil {
				return err
			}
			count = kv.DecodeInteger(value)
			pairs, err = r.Range(begin, []byte("row0"), kv.RangeOptions{Limit: 5000})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, pair := range pairs {
			there[string(pair.Key)] = true
		}
		if len(pairs) < 5000 {
			break
		}
		begin = append(pairs[len(pairs)-1].Key, 0)
	}
	committed := 0
	for n := range y.done {
		if !there[string(y.row(n))] {
			t.Errorf("row %d was acknowledged and is not there", n)
		}
	}
	for n := range y.failed {
		if there[string(y.row(n))] {
			t.Errorf("row %d certainly was not written, and is there", n)
		}
	}
	for n := range y.unknown {
		if there[string(y.row(n))] {
			committed++
		}
	}
	if len(there) != int(count) {
		t.Errorf("%d rows are there, but %d were counted: a transaction took effect twice or by half", len(there), count)
	}
	t.Logf("%d acknowledged, %d certainly not written, %d unknown, of which %d took effect", len(y.done), len(y.failed), len(y.unknown), committed)
}

// TestKilled kills the processes of a double-redundant cluster by turns, under
// load: what was acknowledged is there, what was not to be is not, nothing took
// effect twice, and writing goes on.
func TestKilled(t *testing.T) {
	nightly.Only(t, "it kills processes of a cluster; TestNothingUnknownIsRerun has what follows")
	cluster := fdbtest.New(t, 3)
	y := newTally(open(t, cluster, "p/"))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for ctx.Err() == nil {
				// By chance its time is longer than a recovery, or not.
				one, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				if err := y.write(one); err != nil {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	progress := func(after string) {
		t.Helper()
		begin, limit := time.Now(), time.After(time.Minute)
		for len(y.news) > 0 {
			<-y.news
		}
		for range 200 {
			select {
			case <-y.news:
			case <-limit:
				t.Fatalf("writing did not go on after %s", after)
			}
		}
		t.Logf("200 transactions after %s took %v", after, time.Since(begin).Round(time.Millisecond))
	}
	progress("the start")
	for _, p := range cluster.Processes {
		p.Kill(t)
		progress("the loss of a process")
		p.Start(t)
		cluster.AwaitHealthy(t)
	}
	progress("all of it")
	stop()
	wg.Wait()
	y.check(t)
}
