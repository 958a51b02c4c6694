package local

import (
	"context"
	"errors"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func TestTransactionsEnd(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{})
	var leaked kv.Tx
	mustUpdate(t, db, func(tx kv.Tx) error {
		leaked = tx
		return nil
	})
	if _, err := leaked.Get([]byte("a")); err == nil {
		t.Error("a transaction that has ended reads on")
	}
	leaked.Set([]byte("a"), nil)
	leaked.Clear([]byte("a"))
	leaked.ClearRange([]byte("a"), []byte("b"))
	leaked.Add([]byte("a"), 1)
	leaked.Max([]byte("a"), 1)
	leaked.Conflict([]byte("a"))
	select {
	case <-leaked.Watch([]byte("a")).Done():
	default:
		t.Error("a watch of a transaction that has ended has not")
	}

	// A closure that panics leaves nothing behind that keeps Close waiting.
	func() {
		defer func() { _ = recover() }()
		_ = db.Update(context.Background(), func(tx kv.Tx) error {
			if _, err := tx.Range([]byte("a"), []byte("b"), kv.RangeOptions{Limit: 1}); err != nil {
				return err
			}
			panic("own")
		})
	}()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if _, err := db.Metrics(); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("metrics of a closed store: %v", err)
	}
}

// TestNarrowedRangeIsStale lets a row appear in a range between the look at the
// few rows that it holds, and the commit that clears it.
func TestNarrowedRangeIsStale(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{})
	mustUpdate(t, db, set("b", "1"))
	run := db.begin(nil)
	run.ClearRange([]byte("a"), []byte("z"))
	run.Set([]byte("c"), []byte("kept"))
	if err := run.narrow(); err != nil {
		t.Fatal(err)
	}
	if w := &run.buf.writes; len(w.cleared) != 0 || w.keys.len() != 2 {
		t.Fatalf("the range was not narrowed: %d ranges, %d keys", len(w.cleared), w.keys.len())
	}
	mustUpdate(t, db, set("d", "1"))
	turn := commitTurn{commits: &db.commits}
	if c, stale, err := db.prepare(t.Context(), run, &turn); c != nil || !stale || err != nil {
		t.Fatalf("commit: %v, stale %t, %v", c, stale, err)
	}
	run.buf.writes.widenRanges()
	c, stale, err := db.prepare(t.Context(), run, &turn)
	if c == nil || stale || err != nil {
		t.Fatalf("commit: %v, stale %t, %v", c, stale, err)
	}
	db.commits.toApply <- applyJob{run, c}
	if err := db.commits.await(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := mustGet(t, db, "b") + mustGet(t, db, "c") + mustGet(t, db, "d"); got != "kept" {
		t.Errorf("what is left is %q", got)
	}
}
