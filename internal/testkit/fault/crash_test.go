package fault

import (
	"context"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

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
