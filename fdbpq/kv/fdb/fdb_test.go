//go:build fdb

package fdb_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/internal/testkit/kvtest"
)

// open opens a store that the test's end closes.
func open(t testing.TB, cluster *fdbtest.Cluster, prefix string) *fdb.DB {
	t.Helper()
	db, err := fdb.Open(cluster.File, fdb.Options{Prefix: []byte(prefix)})
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

// update runs a transaction that must commit.
func update(t testing.TB, db kv.DB, fn func(tx kv.Tx) error) {
	t.Helper()
	if err := db.Update(t.Context(), fn); err != nil {
		t.Fatalf("Update: %v", err)
	}
}

// rows returns all rows of a store as text, read in both directions.
func rows(t testing.TB, db kv.DB) string {
	t.Helper()
	var forward, backward []string
	err := db.View(t.Context(), func(r kv.Reader) error {
		forward, backward = nil, nil
		end := []byte("\xff\xff\xff")
		pairs, err := r.Range(nil, end, kv.RangeOptions{Limit: 1000})
		if err != nil {
			return err
		}
		for _, pair := range pairs {
			forward = append(forward, fmt.Sprintf("%q=%q", pair.Key, pair.Value))
		}
		pairs, err = r.Range(nil, end, kv.RangeOptions{Limit: 1000, Reverse: true})
		for _, pair := range pairs {
			backward = append([]string{fmt.Sprintf("%q=%q", pair.Key, pair.Value)}, backward...)
		}
		return err
	})
	if err != nil {
		t.Fatalf("View: %v", err)
	}
	if fmt.Sprint(forward) != fmt.Sprint(backward) {
		t.Errorf("read forward %v, backward %v", forward, backward)
	}
	return fmt.Sprint(forward)
}

// TestKV judges the engine. The suite's longest keys leave no room for a
// prefix, so it gets the whole cluster.
func TestKV(t *testing.T) {
	cluster := fdbtest.Shared(t)
	kvtest.Run(t, kvtest.Harness{
		Open: func(t testing.TB) kv.DB {
			db := open(t, cluster, "")
			update(t, db, func(tx kv.Tx) error { tx.ClearRange(nil, []byte{0xff}); return nil })
			return db
		},
	})
}

// TestPrefix: stores side by side see and touch their own rows only, from the
// first key there can be to the last.
func TestPrefix(t *testing.T) {
	cluster := fdbtest.Shared(t)
	all := open(t, cluster, "")
	update(t, all, func(tx kv.Tx) error {
		tx.ClearRange(nil, []byte{0xff})
		for _, key := range []string{"o\xff\xff", "q", "q\xfe\xff", "q\xff", "r", "r\x01", "t"} {
			tx.Set([]byte(key), []byte("outside"))
		}
		return nil
	})
	outside := rows(t, all)

	var stores []*fdb.DB
	for _, prefix := range []string{"p", "q\xff\xff", "r\x00", "s"} {
		db := open(t, cluster, prefix)
		update(t, db, func(tx kv.Tx) error {
			for _, key := range []string{"", "\x00", "a", "\xff", "\xff\xff"} {
				tx.Set([]byte(key), []byte(prefix))
			}
			return nil
		})
		stores = append(stores, db)
	}
	for i, prefix := range []string{"p", "q\xff\xff", "r\x00", "s"} {
		want := fmt.Sprintf("[\"\"=%[1]q \"\\x00\"=%[1]q \"a\"=%[1]q \"\\xff\"=%[1]q \"\\xff\\xff\"=%[1]q]", prefix)
		if got := rows(t, stores[i]); got != want {
			t.Errorf("the store with prefix %q has the rows\n%s, expected\n%s", prefix, got, want)
		}
		update(t, stores[i], func(tx kv.Tx) error { tx.ClearRange(nil, []byte("\xff\xff\xff")); return nil })
		if got := rows(t, stores[i]); got != "[]" {
			t.Errorf("the store with prefix %q has the rows %s after all were cleared", prefix, got)
		}
	}
	if got := rows(t, all); got != outside {
		t.Errorf("the rows outside the stores became\n%s, expected\n%s", got, outside)
	}
}

// TestPrefixCountsForKeys: a key with its prefix may be as long as
// FoundationDB's keys.
func TestPrefixCountsForKeys(t *testing.T) {
	const prefix = "long-keys/"
	db := open(t, fdbtest.Shared(t), prefix)
	longest := make([]byte, kv.MaxKeySize-len(prefix))
	update(t, db, func(tx kv.Tx) error { tx.Set(longest, []byte("x")); return nil })
	err := db.View(t.Context(), func(r kv.Reader) error {
		value, err := r.Get(longest)
		if err == nil && string(value) != "x" {
			err = fmt.Errorf("got %q", value)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	err = db.Update(t.Context(), func(tx kv.Tx) error { tx.Set(append(longest, 0), nil); return nil })
	if !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("a key that is too long with its prefix: got error %v, expected ErrTooLarge", err)
	}
}

// TestStoresShareConnection: stores in one cluster come and go without hurting
// each other.
func TestStoresShareConnection(t *testing.T) {
	cluster := fdbtest.Shared(t)
	first := open(t, cluster, string(fdbtest.Prefix()))
	var w *kv.Watch
	update(t, first, func(tx kv.Tx) error { w = tx.Watch([]byte("k")); return nil })
	for range 3 {
		second := open(t, cluster, string(fdbtest.Prefix()))
		update(t, second, func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("second")); return nil })
		if err := second.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := rows(t, first); got != "[]" {
		t.Errorf("the first store has the rows %s", got)
	}
	if n := first.Metrics().Watches; n != 1 {
		t.Errorf("the first store has %d watches, expected its own one", n)
	}
	update(t, first, func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("first")); return nil })
	<-w.Done()
}

// TestMetrics counts one of everything.
func TestMetrics(t *testing.T) {
	db := open(t, fdbtest.Shared(t), string(fdbtest.Prefix()))
	runs := 0
	var w *kv.Watch
	update(t, db, func(tx kv.Tx) error {
		runs++
		if _, err := tx.Get([]byte("k")); err != nil {
			return err
		}
		w = tx.Watch([]byte("other"))
		if runs == 1 {
			update(t, db, func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("theirs")); return nil })
		}
		tx.Set([]byte("k"), []byte("mine"))
		return nil
	})
	if got, want := db.Metrics(), (fdb.Metrics{Commits: 2, Conflicts: 1, Watches: 1}); got != want {
		t.Errorf("Metrics() = %+v, expected %+v", got, want)
	}
	w.Cancel()
	<-w.Done()
	if n := db.Metrics().Watches; n != 0 {
		t.Errorf("%d watches are pending after the only one was cancelled", n)
	}
}

// TestTooManyWatches: a watch that the library refuses ends at once instead of
// failing the transaction, and is counted.
func TestTooManyWatches(t *testing.T) {
	db := open(t, fdbtest.Shared(t), string(fdbtest.Prefix()))
	restore, err := fdb.LimitWatches(db, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := restore(); err != nil {
			t.Error(err)
		}
	}()
	set := func() (w *kv.Watch) {
		update(t, db, func(tx kv.Tx) error { w = tx.Watch([]byte("k")); tx.Add([]byte("n"), 1); return nil })
		return w
	}
	first, second := set(), set()
	<-set().Done()
	if got, want := db.Metrics(), (fdb.Metrics{Commits: 3, RefusedWatches: 1, Watches: 2}); got != want {
		t.Errorf("Metrics() = %+v, expected %+v", got, want)
	}
	first.Cancel()
	<-first.Done()
	third := set()
	update(t, db, func(tx kv.Tx) error { tx.Set([]byte("k"), nil); return nil })
	<-second.Done()
	<-third.Done()
	if n := db.Metrics().RefusedWatches; n != 1 {
		t.Errorf("%d watches were refused, expected only that beyond the limit", n)
	}
}

// TestTooOld has transactions outlive the time that the servers remember, here half a
// second: they run again, and lose nothing.
func TestTooOld(t *testing.T) {
	const life = 500_000 // versions, of which a second has a million
	knob := fmt.Sprintf("_transaction_life_versions=%d", life)
	cluster := fdbtest.New(t, 1, "--knob_max_read"+knob, "--knob_max_write"+knob)
	db := open(t, cluster, "p/")
	update(t, db, func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("v")); return nil })

	growOld := func() error {
		begin, err := fdb.ReadVersion(db)
		for now := begin; err == nil && now <= begin+2*life; {
			// Versions of a store at rest go on with its writes.
			if err := db.Update(t.Context(), func(tx kv.Tx) error { tx.Add([]byte("n"), 1); return nil }); err != nil {
				return err
			}
			now, err = fdb.ReadVersion(db)
		}
		return err
	}
	get := func(r kv.Reader, key string) error { _, err := r.Get([]byte(key)); return err }
	page := func(r kv.Reader, key string) error {
		_, err := r.Range([]byte(key), []byte(key+"/"), kv.RangeOptions{Limit: 1})
		return err
	}
	// late reads, a new key each time, until that fails. Storage servers remember
	// somewhat longer than they must.
	late := func(r kv.Reader, read func(kv.Reader, string) error) error {
		for i := range 20 {
			if err := growOld(); err != nil {
				return err
			}
			if err := read(r, fmt.Sprintf("late/%d", i)); err != nil {
				return fmt.Errorf("of the closure: %w", err)
			}
		}
		return errors.New("reads of a version of long ago succeed")
	}
	for name, read := range map[string]func(kv.Reader, string) error{"Get": get, "Range": page} {
		runs := 0
		closure := func(r kv.Reader) error {
			if err := get(r, "k"); err != nil {
				return err
			}
			if runs++; runs == 1 {
				return late(r, read)
			}
			return nil
		}
		if err := db.View(t.Context(), closure); err != nil || runs != 2 {
			t.Errorf("a view that was too old for %s ran %d times, expected 2, and ended with error %v", name, runs, err)
		}
		runs = 0
		update(t, db, func(tx kv.Tx) error { tx.Set([]byte("runs"), fmt.Append(nil, runs)); return closure(tx) })
		if runs != 2 {
			t.Errorf("an update that was too old for %s ran %d times, expected 2", name, runs)
		}
	}
	runs := 0
	update(t, db, func(tx kv.Tx) error {
		tx.Set([]byte("runs"), fmt.Append(nil, runs))
		if runs++; runs == 1 {
			if err := get(tx, "k"); err != nil {
				return err
			}
			return growOld()
		}
		return nil
	})
	if runs != 2 {
		t.Errorf("an update that was too old for its commit ran %d times, expected 2", runs)
	}
}
