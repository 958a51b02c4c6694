package kvtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// How transactions end without a commit: by their closure, by their context, by
// Close.
var endingCases = []testCase{
	{name: "OwnError", run: testOwnError},
	{name: "OwnErrorAfterConflict", run: testOwnErrorAfterConflict},
	{name: "ContextEnded", run: testContextEnded},
	{name: "ContextEndsBeforeRerun", run: testContextEndsBeforeRerun},
	{name: "ContextEndsDuringClosure", run: testContextEndsDuringClosure},
	{name: "Close", run: testClose},
	{name: "CloseWaits", run: testCloseWaits},
}

// testOwnError: an error of the closure is returned unchanged, whatever it looks like, and ends the transaction
// without effect and without another run.
func testOwnError(f *fixture) {
	f.start(set("a", "1"), setInteger("n", 1))
	own := []error{
		errors.New("own"),
		fmt.Errorf("wrapped: %w", kv.ErrUnavailable),
		kv.ErrUnavailable, kv.ErrUnknown, kv.ErrTooLarge, kv.ErrClosed,
		context.Canceled, context.DeadlineExceeded,
	}
	for _, want := range own {
		runs := 0
		err := f.db.Update(f.ctx, func(tx kv.Tx) error {
			if runs++; runs > 3 {
				return errors.New("the closure failed and is run again and again")
			}
			if _, err := tx.Get([]byte("a")); err != nil {
				return err
			}
			for _, write := range []op{set("a", "2"), set("b", "2"), clearRange("n", "z"), add("m", 1), raise("m", 9)} {
				write.apply(tx)
			}
			return want
		})
		if err != want {
			f.Errorf("Update returned %v, expected the closure's %v itself", err, want)
		}
		if runs != 1 {
			f.Errorf("the closure failed with %v and was run %d times", want, runs)
		}
		err = f.db.View(f.ctx, func(r kv.Reader) error {
			if _, err := r.Get([]byte("a")); err != nil {
				return err
			}
			return want
		})
		if err != want {
			f.Errorf("View returned %v, expected the closure's %v itself", err, want)
		}
		f.expectRows("a", "1", "n", integer(1))
	}
}

// testOwnErrorAfterConflict: the error of a closure whose reads are out of date is an answer about the state that
// it read.
func testOwnErrorAfterConflict(f *fixture) {
	f.start(set("a", "old"))
	own := errors.New("own")
	runs := 0
	err := f.db.Update(f.ctx, func(tx kv.Tx) error {
		runs++
		if _, err := tx.Get([]byte("a")); err != nil {
			return err
		}
		tx.Set([]byte("a"), []byte("mine"))
		if runs == 1 {
			if err := f.asideDo(set("a", "new")); err != nil {
				return err
			}
		}
		return own
	})
	if err != own {
		f.Errorf("Update returned %v, expected the closure's error", err)
	}
	f.expectRows("a", "new")
}

// expectUnavailable checks an error that the end of a context caused.
func (f *fixture) expectUnavailable(err, cause error, what string) {
	f.Helper()
	if !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, cause) {
		f.Errorf("%s: got error %v, expected one that is both ErrUnavailable and %v", what, err, cause)
	}
}

func testContextEnded(f *fixture) {
	f.start(set("a", "1"))
	cancelled, cancel := context.WithCancel(f.ctx)
	cancel()
	expired, cancel := context.WithDeadline(f.ctx, time.Unix(0, 0))
	defer cancel()
	for _, ctx := range []context.Context{cancelled, expired} {
		err := f.db.Update(ctx, func(tx kv.Tx) error {
			tx.Set([]byte("a"), []byte("2"))
			return nil
		})
		f.expectUnavailable(err, ctx.Err(), "Update")
		err = f.db.View(ctx, func(r kv.Reader) error {
			_, err := r.Get([]byte("a"))
			return err
		})
		f.expectUnavailable(err, ctx.Err(), "View")
	}
	f.expectRows("a", "1")
}

// testContextEndsBeforeRerun has the context end in a run of a closure that conflicts.
func testContextEndsBeforeRerun(f *fixture) {
	f.start()
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	runs := 0
	err := f.db.Update(ctx, func(tx kv.Tx) error {
		defer cancel()
		runs++
		if _, err := tx.Get([]byte("n")); err != nil {
			return err
		}
		tx.Set([]byte("a"), []byte("committed"))
		if runs > 1 {
			return nil
		}
		return f.asideDo(add("n", 1))
	})
	f.expectUnavailable(err, context.Canceled, "Update")
	if runs != 1 {
		f.Errorf("the closure ran %d times, expected no rerun after the context ended in run 1", runs)
	}
	f.expectRows("n", integer(1))
}

// testContextEndsDuringClosure: whether the transaction commits then is up to
// the engine, but the answer must be true.
func testContextEndsDuringClosure(f *fixture) {
	f.start()
	ctx, cancel := context.WithCancel(f.ctx)
	defer cancel()
	err := f.db.Update(ctx, func(tx kv.Tx) error {
		tx.Set([]byte("a"), []byte("1"))
		cancel()
		return nil
	})
	switch {
	case err == nil:
		f.expectRows("a", "1")
	case errors.Is(err, kv.ErrUnknown):
		// It may even take effect later.
	default:
		f.expectUnavailable(err, context.Canceled, "Update")
		f.expectRows()
	}

	own := errors.New("own")
	ctx, cancel = context.WithCancel(f.ctx)
	defer cancel()
	err = f.db.Update(ctx, func(tx kv.Tx) error {
		cancel()
		return own
	})
	if err != own {
		f.Errorf("Update returned %v, expected the closure's error", err)
	}
}

func testClose(f *fixture) {
	f.start(set("a", "1"))
	if err := f.db.Close(); err != nil {
		f.Fatalf("Close: %v", err)
	}
	for range 2 {
		err := f.db.Update(f.ctx, func(tx kv.Tx) error { tx.Set([]byte("a"), nil); return nil })
		if !errors.Is(err, kv.ErrClosed) {
			f.Errorf("Update after Close returned %v, expected ErrClosed", err)
		}
		err = f.db.View(f.ctx, func(r kv.Reader) error { _, err := r.Get([]byte("a")); return err })
		if !errors.Is(err, kv.ErrClosed) {
			f.Errorf("View after Close returned %v, expected ErrClosed", err)
		}
		if err := f.db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			f.Errorf("Close after Close returned %v, expected ErrClosed or nothing", err)
		}
	}
}

// testCloseWaits: before Close returns, transactions under way end as usual.
func testCloseWaits(f *fixture) {
	f.start(set("a", "1"))
	entered, closing := make(chan struct{}, 100), make(chan struct{})
	linger := func(r kv.Reader, ended *atomic.Bool) error {
		entered <- struct{}{}
		if err := f.wait(closing, "Close to be called"); err != nil {
			return err
		}
		for range 100 {
			runtime.Gosched()
		}
		_, err := r.Get([]byte("a"))
		ended.Store(true)
		return err
	}
	enter := func() {
		f.Helper()
		select {
		case <-entered:
		case <-patience.Late():
			f.Fatal("a closure was not run while another one waited")
		}
	}
	var updated, viewed atomic.Bool
	results := make(chan error, 2)
	go func() {
		results <- f.db.Update(f.ctx, func(tx kv.Tx) error {
			tx.Set([]byte("b"), []byte("2"))
			return linger(tx, &updated)
		})
	}()
	enter()
	go func() {
		results <- f.db.View(f.ctx, func(r kv.Reader) error { return linger(r, &viewed) })
	}()
	enter()
	close(closing)
	if err := f.db.Close(); err != nil {
		f.Errorf("Close: %v", err)
	}
	if !updated.Load() || !viewed.Load() {
		f.Error("Close returned before the closures under way had")
	}
	for range 2 {
		if err := <-results; err != nil {
			f.Errorf("a transaction that was under way at Close ended with %v", err)
		}
	}
}
