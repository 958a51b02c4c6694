package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
	if err := db.commits.lock.lock(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- db.Update(ctx, set("a", "1")) }()
	await(t, "a commit to wait", func() bool { return db.commits.lock.waiters() > 0 })
	if got := mustGet(t, db, "a"); got != "" { // reads go on
		t.Errorf("read %q", got)
	}
	cancel()
	expect(<-result)
	db.commits.lock.unlock()

	// A transaction that has lost does not run again when its time is over.
	ctx, cancel = context.WithCancel(context.Background())
	runs := 0
	expect(db.Update(ctx, func(tx kv.Tx) error {
		runs++
		defer cancel()
		return lose(db, tx)
	}))
	if runs != 1 {
		t.Errorf("the closure ran %d times", runs)
	}
	if m, err := db.Metrics(); err != nil {
		t.Errorf("metrics %+v, %v", m, err)
	}
}

// lose has a transaction depend on a row that another one changes at once.
func lose(db *DB, tx kv.Tx) error {
	if _, err := tx.Get([]byte("n")); err != nil {
		return err
	}
	tx.Set([]byte("m"), nil)
	return db.Update(context.Background(), set("n", "changed"))
}

// A transaction that has lost runs again alone: whatever others write and however fast, it
// loses once.
func TestLoserRunsAlone(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{})
	var others sync.WaitGroup
	runs := 0
	mustUpdate(t, db, func(tx kv.Tx) error {
		if runs++; runs == 1 {
			return lose(db, tx)
		}
		waiting := db.commits.lock.waiters()
		for i := range 8 {
			others.Go(func() {
				if err := db.Update(context.Background(), set("n", fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
		}
		value, err := tx.Get([]byte("n"))
		if string(value) != "changed" {
			t.Errorf("run %d reads %q", runs, value)
		}
		tx.Set([]byte("m"), value)
		await(t, "the others to wait", func() bool { return db.commits.lock.waiters() == waiting+8 })
		return err
	})
	others.Wait()
	if got := mustGet(t, db, "m"); runs != 2 || got != "changed" {
		t.Errorf("the closure ran %d times and wrote %q", runs, got)
	}
	if m, err := db.Metrics(); err != nil || m.Conflicts != 1 {
		t.Errorf("metrics %+v, %v", m, err)
	}

	// Whatever the second run ends with, others go on after it.
	refused := errors.New("refused")
	for name, second := range map[string]struct {
		run  func(kv.Tx) error
		want error
	}{
		"an error":         {func(kv.Tx) error { return refused }, refused},
		"nothing to write": {func(kv.Tx) error { return nil }, nil},
		"too much": {func(tx kv.Tx) error {
			tx.Set(make([]byte, kv.MaxKeySize+1), nil)
			return nil
		}, kv.ErrTooLarge},
	} {
		runs := 0
		err := db.Update(context.Background(), func(tx kv.Tx) error {
			if runs++; runs == 1 {
				return lose(db, tx)
			}
			return second.run(tx)
		})
		if !errors.Is(err, second.want) || runs != 2 {
			t.Errorf("%s: %v after %d runs", name, err, runs)
		}
		mustUpdate(t, db, set("n", name))
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the closure did not panic")
			}
		}()
		runs := 0
		_ = db.Update(context.Background(), func(tx kv.Tx) error {
			if runs++; runs == 2 {
				panic("in the second run")
			}
			return lose(db, tx)
		})
	}()
	mustUpdate(t, db, set("n", "after a panic"))
}

// A transaction with many reads ends beside writers that commit as fast as they can, and in
// the end they wait for it. Without that it compares itself with ever new commits.
func TestManyReadsEndBesideWriters(t *testing.T) {
	t.Parallel()
	const reads, most = 20_000, 20_000
	db := openMem(t, Options{NoSync: true})
	var over atomic.Bool
	var committed atomic.Int64
	var writers sync.WaitGroup
	write := func(writer int) {
		for i := 0; !over.Load(); i++ {
			if err := db.Update(context.Background(), set(fmt.Sprintf("row %05d/%d", i%reads, writer), "x")); err != nil {
				t.Error(err)
				return
			}
			committed.Add(1)
		}
	}
	began, runs := int64(0), 0
	mustUpdate(t, db, func(tx kv.Tx) error {
		if runs++; runs == 1 {
			for i := range 2 {
				writers.Go(func() { write(i) })
			}
		}
		for i := range reads {
			row := fmt.Sprintf("row %05d", i)
			if _, err := tx.Range([]byte(row+"-"), []byte(row+"."), kv.RangeOptions{Limit: 1}); err != nil {
				return err
			}
		}
		tx.Set([]byte("done"), nil)
		began = committed.Load()
		return nil
	})
	if during := committed.Load() - began; runs != 1 || during > most {
		t.Errorf("%d other transactions committed during the commit, %d runs", during, runs)
	}
	over.Store(true)
	writers.Wait()

	// The comparison ends with the context, too.
	ctx, cancel := context.WithCancel(context.Background())
	err := db.Update(ctx, func(tx kv.Tx) error {
		if _, err := tx.Get([]byte("done")); err != nil {
			return err
		}
		tx.Set([]byte("done"), nil)
		defer cancel()
		return db.Update(context.Background(), set("other", ""))
	})
	if !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the store is unavailable and the context is over", err)
	}
}
