package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/kvtest"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// patience is how long a test waits for what must happen.
const patience = 90 * time.Second

func openBase(t testing.TB, opts local.Options) kv.DB {
	t.Helper()
	opts.FS = vfs.NewMem()
	if opts.Now == nil {
		opts.Now = func() time.Time { return time.Time{} } // nothing grows old on a busy machine
	}
	db, err := local.Open("db", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
	return db
}

func open(t testing.TB, opts Options) *DB {
	t.Helper()
	return wrap(t, openBase(t, local.Options{}), opts)
}

// wrap closes the store before what is below it is closed, which would wait for
// late commits in vain.
func wrap(t testing.TB, base kv.DB, opts Options) *DB {
	t.Helper()
	db := Wrap(base, opts)
	t.Cleanup(func() {
		if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Errorf("Close: %v", err)
		}
	})
	return db
}

// clock is moved by hand.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.passed.Load()) }
func (c *clock) advance(d time.Duration) { c.passed.Add(int64(d)) }

func set(key, value string) func(kv.Tx) error {
	return func(tx kv.Tx) error { tx.Set([]byte(key), []byte(value)); return nil }
}

func increment(key string) func(kv.Tx) error {
	return func(tx kv.Tx) error {
		value, err := tx.Get([]byte(key))
		tx.Set([]byte(key), kv.EncodeInteger(kv.DecodeInteger(value)+1))
		return err
	}
}

// rows returns all rows of a store as text.
func rows(t testing.TB, db kv.DB) string {
	t.Helper()
	var text []string
	err := db.View(t.Context(), func(r kv.Reader) error {
		pairs, err := r.Range(nil, []byte{0xff}, kv.RangeOptions{Limit: 1000})
		text = nil
		for _, pair := range pairs {
			text = append(text, fmt.Sprintf("%s=%s", pair.Key, pair.Value))
		}
		return err
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	return strings.Join(text, " ")
}

func expectRows(t testing.TB, db kv.DB, want string) {
	t.Helper()
	if got := rows(t, db); got != want {
		t.Errorf("the store holds %q, expected %q", got, want)
	}
}

func expectError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, expected %v", err, want)
	}
}

func mustUpdate(t testing.TB, db kv.DB, fn func(kv.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), fn); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

func await(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
	}
}

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
	kvtest.Run(t, kvtest.Harness{
		Open: func(t testing.TB) kv.DB {
			return open(t, Options{Seed: 1, Chances: Chances{Conflict: 0.3}, Yield: true})
		},
		Reruns: true,
		Seed:   1,
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

// TestLateCommits has a transaction committed late, after others.
func TestLateCommits(t *testing.T) {
	t.Parallel()
	move := func(tx kv.Tx) error { // depends on a, writes b
		value, err := tx.Get([]byte("a"))
		tx.Set([]byte("b"), value)
		return err
	}
	tests := []struct {
		name      string
		late      func(kv.Tx) error
		meanwhile []func(kv.Tx) error
		done      int
		rows      string
	}{
		{"alone", move, nil, 1, "a=1 b=1"},
		{"others elsewhere", move, []func(kv.Tx) error{set("c", "2"), set("d", "3")}, 1, "a=1 b=1 c=2 d=3"},
		{"what it read changed", move, []func(kv.Tx) error{set("a", "2")}, 0, "a=2"},
		{"what it read changed and came back", move, []func(kv.Tx) error{set("a", "2"), set("a", "1")}, 0, "a=1"},
		{"what it wrote was written", move, []func(kv.Tx) error{set("b", "2")}, 1, "a=1 b=1"},
		{"blind", set("a", "late"), []func(kv.Tx) error{set("a", "2")}, 1, "a=late"},
		{"its conflict key was written", func(tx kv.Tx) error {
			if _, err := tx.Snapshot().Get([]byte("a")); err != nil {
				return err
			}
			tx.Conflict([]byte("void"))
			return set("b", "late")(tx)
		}, []func(kv.Tx) error{set("void", "x")}, 0, "a=1 void=x"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			db := open(t, Options{})
			mustUpdate(t, db, set("a", "1"))
			db.FailNext(UnknownLate)
			returned, ranLater := false, false
			ctx, cancel := context.WithCancel(t.Context())
			err := db.Update(ctx, func(tx kv.Tx) error {
				ranLater = ranLater || returned
				return test.late(tx)
			})
			expectError(t, err, kv.ErrUnknown)
			returned = true
			cancel()
			for _, fn := range test.meanwhile {
				mustUpdate(t, db, fn)
			}
			if n := db.Late(); n != 1 {
				t.Errorf("%d commits are late, expected 1 until Release", n)
			}
			if done := db.Release(); done != test.done {
				t.Errorf("Release made %d late commits, expected %d", done, test.done)
			}
			expectRows(t, db, test.rows)
			if ranLater {
				t.Error("the closure ran after Update had returned")
			}
			if stats := db.Stats(); stats.LateDone != test.done || stats.LateFailed != 1-test.done {
				t.Errorf("stats are %+v", stats)
			}
		})
	}
}

func TestLateCommitsInOrder(t *testing.T) {
	t.Parallel()
	db := open(t, Options{})
	db.FailNext(UnknownLate, UnknownLate, UnknownLate, UnknownLate)
	for _, value := range []string{"1", "2", "3"} {
		expectError(t, db.Update(t.Context(), set("a", value)), kv.ErrUnknown)
	}
	expectError(t, db.Update(t.Context(), increment("n")), kv.ErrUnknown)
	mustUpdate(t, db, increment("n"))
	if done := db.Release(); done != 3 {
		t.Errorf("Release made %d late commits, expected all but the one in conflict", done)
	}
	expectRows(t, db, "a=3 n="+string(kv.EncodeInteger(1)))

	db.FailNext(UnknownLate)
	expectError(t, db.Update(t.Context(), set("a", "4")), kv.ErrUnknown)
	db.Drop()
	if done := db.Release(); done != 0 {
		t.Errorf("Release made %d commits after Drop", done)
	}
	if stats := db.Stats(); stats.LateDropped != 1 || stats.LateDone != 3 || stats.LateFailed != 1 {
		t.Errorf("stats are %+v", stats)
	}
	expectRows(t, db, "a=3 n="+string(kv.EncodeInteger(1)))
}

// TestLateCommitTooOld: the engine refuses what has been on its way for longer
// than a transaction may take.
func TestLateCommitTooOld(t *testing.T) {
	t.Parallel()
	var c clock
	db := wrap(t, openBase(t, local.Options{Now: c.now}), Options{})
	db.FailNext(UnknownLate)
	expectError(t, db.Update(t.Context(), increment("n")), kv.ErrUnknown)
	c.advance(kv.MaxTxAge + time.Second)
	if done := db.Release(); done != 0 {
		t.Error("a commit took effect after the age limit of transactions")
	}
	expectRows(t, db, "")
}

// TestByChance: a seed decides what happens, everything happens, and late
// commits are made by later calls.
func TestByChance(t *testing.T) {
	t.Parallel()
	chances := Chances{Conflict: 0.2, Unavailable: 0.1, UnknownNever: 0.1, UnknownDone: 0.1, UnknownLate: 0.2}
	run := func(seed uint64) (string, Stats) {
		db := open(t, Options{Seed: seed, Chances: chances})
		var story strings.Builder
		for i := range 300 {
			err := db.Update(t.Context(), increment(fmt.Sprintf("n%d", i%7)))
			fmt.Fprintln(&story, err)
		}
		stats := db.Stats()
		db.SetChances(nil)
		for range 100 {
			mustUpdate(t, db, set("m", ""))
		}
		if n := db.Late(); n > 0 {
			t.Errorf("%d commits are late after 100 other calls", n)
		}
		story.WriteString(rows(t, db))
		return story.String(), stats
	}
	first, stats := run(1)
	for kind := Conflict; kind <= UnknownLate; kind++ {
		if n := stats.Injected[kind]; n < 10 {
			t.Errorf("%q happened %d times in 300 calls with chance %v", kind, n, chances[kind])
		}
	}
	if stats.LateDone == 0 || stats.LateFailed == 0 || stats.LateDropped != 0 || stats.Updates != 300 {
		t.Errorf("stats are %+v, expected late commits that succeed and fail", stats)
	}
	if again, _ := run(1); again != first {
		t.Error("the same seed gave another story")
	}
	if other, _ := run(2); other == first {
		t.Error("another seed gave the same story")
	}
}

func TestChancesInView(t *testing.T) {
	t.Parallel()
	db := open(t, Options{Seed: 1, Chances: Chances{Conflict: 0.4, Unavailable: 0.2, UnknownDone: 0.4}})
	runs, failed := 0, 0
	for range 100 {
		err := db.View(t.Context(), func(kv.Reader) error { runs++; return nil })
		if err != nil {
			expectError(t, err, kv.ErrUnavailable)
			failed++
		}
	}
	stats := db.Stats()
	if failed == 0 || failed != stats.Injected[Unavailable] || runs != 100-failed+stats.Injected[Conflict] || runs != stats.Runs || stats.Views != 100 {
		t.Errorf("%d runs, %d failed, stats are %+v", runs, failed, stats)
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

func TestDisconnect(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		var db *DB
		cut := func(context.Context, Point) {}
		db = open(t, Options{Seed: seed, Hook: func(ctx context.Context, at Point) { cut(ctx, at) }})
		var w *kv.Watch
		mustUpdate(t, db, func(tx kv.Tx) error { w = tx.Watch([]byte("k")); return nil })

		at := Point(seed % 3) // the connection breaks there
		cut = func(_ context.Context, here Point) {
			if here == at {
				db.Disconnect()
			}
		}
		var during *kv.Watch
		err := db.Update(t.Context(), func(tx kv.Tx) error {
			during = tx.Watch([]byte("k"))
			return set("a", "1")(tx)
		})
		expectError(t, err, kv.ErrUnknown)
		await(t, w.Done(), "a watch on a broken connection")
		await(t, during.Done(), "the watch of a transaction with an unknown result")

		err = db.Update(t.Context(), set("b", "2"))
		expectError(t, err, kv.ErrUnavailable)
		err = db.View(t.Context(), func(kv.Reader) error { return nil })
		expectError(t, err, kv.ErrUnavailable)

		cut = func(context.Context, Point) {}
		db.Reconnect()
		mustUpdate(t, db, set("c", "3"))
		got := rows(t, db)
		if got != "c=3" && got != "a=1 c=3" || at == AfterCommit && got != "a=1 c=3" {
			t.Errorf("seed %d: the store holds %q", seed, got)
		}
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	base := openBase(t, local.Options{})
	old := wrap(t, base, Options{})
	var w *kv.Watch
	mustUpdate(t, old, func(tx kv.Tx) error { w = tx.Watch([]byte("k")); return nil })
	old.FailNext(UnknownLate, UnknownLate, UnknownLate)
	for _, key := range []string{"a", "b", "n"} {
		expectError(t, old.Update(t.Context(), increment(key)), kv.ErrUnknown)
	}
	old.hook = func(context.Context, Point) { old.Crash() }
	expectError(t, old.Update(t.Context(), set("under way", "")), kv.ErrUnknown)
	await(t, w.Done(), "a watch of a dead process")
	expectError(t, old.Update(t.Context(), set("k", "x")), kv.ErrClosed)
	expectError(t, old.View(t.Context(), func(kv.Reader) error { return nil }), kv.ErrClosed)
	old.Reconnect()
	expectError(t, old.Update(t.Context(), set("k", "x")), kv.ErrClosed)

	// The next process meets what is still on its way.
	next := wrap(t, base, Options{})
	one := string(kv.EncodeInteger(1))
	mustUpdate(t, next, increment("n"))
	if done := old.Release(); done != 2 {
		t.Errorf("%d late commits of a dead process took effect, expected all but the one in conflict", done)
	}
	mustUpdate(t, next, func(tx kv.Tx) error { tx.Clear([]byte("under way")); return nil })
	expectRows(t, next, "a="+one+" b="+one+" n="+one)
	if err := old.Close(); err != nil {
		t.Errorf("Close of a dead process: %v", err)
	}
	expectError(t, old.Close(), kv.ErrClosed)
	mustUpdate(t, next, set("still", "open"))
	if err := next.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestCloseSettlesLateCommits: some take effect, some do not, none is left
// behind.
func TestCloseSettlesLateCommits(t *testing.T) {
	t.Parallel()
	base := openBase(t, local.Options{})
	total := Stats{}
	for seed := range uint64(10) {
		db := wrap(t, base, Options{Seed: seed})
		db.FailNext(UnknownLate)
		expectError(t, db.Update(t.Context(), set(fmt.Sprint(seed), "")), kv.ErrUnknown)
		db.Crash() // so that the store below stays open
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		total.LateDone += db.Stats().LateDone
		total.LateDropped += db.Stats().LateDropped
	}
	if total.LateDone == 0 || total.LateDropped == 0 || total.LateDone+total.LateDropped != 10 {
		t.Errorf("stats are %+v, expected some commits and some not", total)
	}
	if got := len(strings.Fields(rows(t, base))); got != total.LateDone {
		t.Errorf("%d rows are there, expected %d", got, total.LateDone)
	}
	db := wrap(t, base, Options{})
	db.FailNext(UnknownLate, UnknownLate)
	expectError(t, db.Update(t.Context(), set("x", "")), kv.ErrUnknown)
	expectError(t, db.Update(t.Context(), set("y", "")), kv.ErrUnknown)
	if err := db.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	expectError(t, base.Close(), kv.ErrClosed)
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
