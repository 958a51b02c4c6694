package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/testkit/kvtest"
)

func TestConformanceWithoutFaults(t *testing.T) {
	t.Parallel()
	var c clock
	kvtest.Run(t, kvtest.Harness{
		Open:    func(t testing.TB) kv.DB { return wrap(t, openBase(t, local.Options{Now: c.now}), Options{}) },
		Advance: c.advance,
	})
}

func TestConformanceWithConflicts(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	kvtest.Run(t, kvtest.Harness{
		Open: func(t testing.TB) kv.DB {
			return open(t, Options{Seed: seed, Chances: Chances{Conflict: 0.3}, Yield: true})
		},
		Reruns: true,
		Seed:   seed,
	})
}

func TestFaultsOnDemand(t *testing.T) {
	t.Parallel()
	own := errors.New("own")
	write := set("k", "new")
	tests := []struct {
		name   string
		faults []Kind
		fn     func(kv.Tx) error
		want   error
		runs   int
		rows   string
		stats  map[Kind]int
	}{
		{"none", nil, write, nil, 1, "k=new", nil},
		{"conflict", []Kind{Conflict}, write, nil, 2, "k=new", map[Kind]int{Conflict: 1}},
		{"conflicts", []Kind{Conflict, Conflict, Conflict}, write, nil, 4, "k=new", map[Kind]int{Conflict: 3}},
		{"unavailable", []Kind{Unavailable}, write, kv.ErrUnavailable, 0, "", map[Kind]int{Unavailable: 1}},
		{"never", []Kind{UnknownNever}, write, kv.ErrUnknown, 1, "", map[Kind]int{UnknownNever: 1}},
		{"done", []Kind{UnknownDone}, write, kv.ErrUnknown, 1, "k=new", map[Kind]int{UnknownDone: 1}},
		{"late", []Kind{UnknownLate}, write, kv.ErrUnknown, 1, "", map[Kind]int{UnknownLate: 1}},
		{"done after conflict", []Kind{Conflict, UnknownDone}, write, kv.ErrUnknown, 2, "k=new", map[Kind]int{Conflict: 1, UnknownDone: 1}},
		{"closure fails", []Kind{UnknownDone}, func(tx kv.Tx) error { return errors.Join(write(tx), own) }, own, 1, "", nil},
		{"closure fails, late", []Kind{UnknownLate}, func(tx kv.Tx) error { return errors.Join(write(tx), own) }, own, 1, "", nil},
		{"nothing to commit, never", []Kind{UnknownNever}, func(kv.Tx) error { return nil }, nil, 1, "", nil},
		{"nothing to commit, done", []Kind{UnknownDone}, func(kv.Tx) error { return nil }, nil, 1, "", nil},
		{"nothing to commit, late", []Kind{UnknownLate}, func(kv.Tx) error { return nil }, nil, 1, "", nil},
		{"too large", []Kind{UnknownDone}, set("k", strings.Repeat("x", kv.MaxValueSize+1)), kv.ErrTooLarge, 1, "", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			db := open(t, Options{})
			db.FailNext(test.faults...)
			runs := 0
			var w *kv.Watch
			err := db.Update(t.Context(), func(tx kv.Tx) error {
				runs++
				w = tx.Watch([]byte("watched"))
				return test.fn(tx)
			})
			expectError(t, err, test.want)
			if runs != test.runs {
				t.Errorf("the closure ran %d times, expected %d", runs, test.runs)
			}
			expectRows(t, db, test.rows)
			if w != nil && isClosed(w.Done()) != (err != nil) {
				t.Errorf("the watch has ended: %t, and Update returned %v", isClosed(w.Done()), err)
			}
			stats := db.Stats()
			if fmt.Sprint(stats.Injected) != fmt.Sprint(test.stats) || stats.Updates != 1 || stats.Runs != test.runs+1 {
				t.Errorf("stats are %+v, expected injected %v and %d runs and one more", stats, test.stats, test.runs)
			}
			// What did not fit is still to come; nothing else is.
			again := set("next", "x")
			var next error
			if len(test.stats) == 0 && len(test.faults) > 0 {
				next = kv.ErrUnknown
			}
			expectError(t, db.Update(t.Context(), again), next)
			mustUpdate(t, db, again)
		})
	}
}

// TestConflictsEndWithContext: a chance of 1 is a conflict in every run.
func TestConflictsEndWithContext(t *testing.T) {
	t.Parallel()
	db := open(t, Options{Chances: Chances{Conflict: 1}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	runs := 0
	err := db.Update(ctx, func(tx kv.Tx) error {
		if runs++; runs == 3 {
			cancel()
		}
		return set("k", "x")(tx)
	})
	expectError(t, err, kv.ErrUnavailable)
	expectError(t, err, context.Canceled)
	if runs != 3 {
		t.Errorf("the closure ran %d times, expected 3", runs)
	}
}

// TestHook orders two transactions: the second one runs as a whole between the
// first one's closure and its commit.
func TestHook(t *testing.T) {
	t.Parallel()
	type name struct{}
	var (
		db     *DB
		mu     sync.Mutex
		points []string
	)
	other := make(chan error, 1)
	db = open(t, Options{Hook: func(ctx context.Context, at Point) {
		who := ctx.Value(name{}).(string)
		mu.Lock()
		points = append(points, fmt.Sprintf("%s %d", who, at))
		first := len(points) == 2
		mu.Unlock()
		if first {
			go func() {
				other <- db.Update(context.WithValue(t.Context(), name{}, "second"), increment("n"))
			}()
			if err := <-other; err != nil {
				t.Errorf("Update: %v", err)
			}
		}
	}})
	if err := db.Update(context.WithValue(t.Context(), name{}, "first"), increment("n")); err != nil {
		t.Fatal(err)
	}
	want := []string{"first 0", "first 1", "second 0", "second 1", "second 2", "first 0", "first 1", "first 2"}
	if !slices.Equal(points, want) {
		t.Errorf("points were %q, expected %q", points, want)
	}
	if stats := db.Stats(); stats.Reruns != 1 || stats.Runs != 3 {
		t.Errorf("stats are %+v, expected the engine to rerun the first transaction", stats)
	}
}

// TestExactlyOnce counts under all faults at once, in the way that makes an
// unknown result known: each attempt reads and overwrites a mark of its worker,
// so that a late one can only conflict once another has been made.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	const workers, increments = 4, 50
	db := open(t, Options{Seed: 7, Yield: true, Chances: Chances{
		Conflict: 0.1, Unavailable: 0.1, UnknownNever: 0.1, UnknownDone: 0.15, UnknownLate: 0.15,
	}})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			mark := fmt.Appendf(nil, "mark/%d", w)
			for attempt, counted := uint64(0), 0; counted < increments; {
				attempt++
				pending := attempt
				err := db.Update(t.Context(), func(tx kv.Tx) error {
					_, err := tx.Get(mark)
					tx.Set(mark, kv.EncodeInteger(pending))
					tx.Add([]byte("count"), 1)
					return err
				})
				done := err == nil
				for errors.Is(err, kv.ErrUnknown) {
					// The mark tells. If it is another one, replace it by a void
					// one, and look again should that be unknown as well.
					attempt++
					err = db.Update(t.Context(), func(tx kv.Tx) error {
						value, err := tx.Get(mark)
						if done = kv.DecodeInteger(value) == pending; !done {
							tx.Set(mark, kv.EncodeInteger(attempt))
						}
						return err
					})
					if errors.Is(err, kv.ErrUnavailable) {
						err = kv.ErrUnknown // as before
					}
				}
				if err != nil && !errors.Is(err, kv.ErrUnavailable) {
					t.Errorf("Update: %v", err)
					return
				}
				if done {
					counted++
				}
			}
		})
	}
	wg.Wait()
	db.SetChances(nil)
	for range 2 {
		var count []byte
		err := db.View(t.Context(), func(r kv.Reader) (err error) {
			count, err = r.Get([]byte("count"))
			return err
		})
		if n := kv.DecodeInteger(count); err != nil || n != workers*increments {
			t.Errorf("counted to %d (error %v), expected %d", n, err, workers*increments)
		}
		db.Release()
	}
	t.Logf("%+v", db.Stats())
}
