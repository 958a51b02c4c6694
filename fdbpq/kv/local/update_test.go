package local

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func TestCallersCanGiveUp(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{})
	over, cancel := context.WithCancel(context.Background())
	cancel()
	expect := func(err error) {
		t.Helper()
		if !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that the store is unavailable and the context is over", err)
		}
	}
	expect(db.Update(over, set("a", "1")))
	expect(db.View(over, func(kv.Reader) error { return nil }))

	// While the store stalls commits, they wait for the lock.
	if err := db.commitLock.lock(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- db.Update(ctx, set("a", "1")) }()
	await(t, "a commit to wait", func() bool { return db.commitLock.waiting.Load() > 0 })
	if got := mustGet(t, db, "a"); got != "" { // reads go on
		t.Errorf("read %q", got)
	}
	cancel()
	expect(<-result)
	db.commitLock.unlock()

	// A closure that never gets through runs until its time is over.
	ctx, cancel = context.WithCancel(context.Background())
	runs := 0
	expect(db.Update(ctx, func(tx kv.Tx) error {
		if _, err := tx.Get([]byte("n")); err != nil {
			return err
		}
		tx.Set([]byte("m"), nil)
		if runs++; runs == 10 {
			cancel()
		}
		return db.Update(context.Background(), set("n", fmt.Sprint(runs)))
	}))
	if runs != 10 {
		t.Errorf("the closure ran %d times", runs)
	}
	m, err := db.Metrics()
	if err != nil || m.Conflicts < 9 {
		t.Errorf("metrics %+v, %v", m, err)
	}
}
