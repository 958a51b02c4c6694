package fdbpq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// A transaction with an unknown result either took effect and is not repeated, or did not
// and is repeated, or is still under way and is made void.
func TestSessionResolvesUnknownResults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		unknown := []fault.Kind{fault.UnknownNever, fault.UnknownDone, fault.UnknownLate}
		for _, kind := range unknown {
			for _, then := range append(unknown, fault.None) {
				p := f.another(0)
				p.db.FailNext(kind, then)
				queue := fmt.Sprint(kind, " then ", then)
				p.pushed(queue, 0, "once")
				p.db.Release()
				if n := f.counts(queue).Ready; n != 1 {
					t.Errorf("%s: %d items after one push", queue, n)
				}
			}
		}
	})
}

// After the end of the context the transaction is not tried again, and an attempt that is
// still under way must not take effect later.
func TestSessionVoidsWhatIsStillUnderWay(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		session := f.Session()
		defer session.Release()
		ctx, cancel := context.WithCancel(t.Context())
		f.db.FailNext(fault.UnknownLate)
		err := session.Update(ctx, func(tx kv.Tx) error {
			cancel()
			_, err := f.Queue("q").Push(tx, fdbpq.NewItem{})
			return err
		})
		if err == nil || errors.Is(err, kv.ErrUnknown) {
			t.Fatalf("Update returned %v, expected an error that says that nothing was done", err)
		}
		if f.db.Release() > 0 || f.counts("q").Ready != 0 {
			t.Error("the transaction took effect after Update had returned without it")
		}
	})
}

// A store that goes away before the result is known leaves it unknown, and the
// error claims nothing else.
func TestSessionUnknownStaysUnknown(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		p := f.another(0)
		session := p.Session()
		p.hook = func(at fault.Point) {
			if at == fault.AfterCommit {
				p.db.Crash()
			}
		}
		p.db.FailNext(fault.UnknownDone)
		err := session.Update(t.Context(), func(tx kv.Tx) error {
			_, err := p.Queue("q").Push(tx, fdbpq.NewItem{})
			return err
		})
		if !errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrClosed) {
			t.Fatalf("Update returned %v, expected ErrUnknown alone", err)
		}
	})
}

// A store that is away for a while is waited for.
func TestSessionWaitsForStore(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		session := f.Session()
		defer session.Release()
		f.db.FailNext(fault.UnknownDone, fault.Unavailable, fault.Unavailable, fault.Unavailable)
		err := session.Update(t.Context(), func(tx kv.Tx) error {
			_, err := f.Queue("q").Push(tx, fdbpq.NewItem{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := f.counts("q").Ready; n != 1 {
			t.Errorf("%d items after one push", n)
		}
	})
}

// A store that stays away leaves the result unknown after a while.
func TestSessionGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base, err := placeLocal(t)()
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		f := newFixture(t, base)
		session := f.Session()
		f.db.FailNext(fault.UnknownDone)
		f.hook = func(at fault.Point) {
			if at == fault.AfterCommit {
				f.db.SetChances(fault.Chances{fault.Unavailable: 1})
			}
		}
		result := make(chan error, 1)
		go func() {
			result <- session.Update(t.Context(), func(tx kv.Tx) error {
				_, err := f.Queue("q").Push(tx, fdbpq.NewItem{})
				return err
			})
		}()
		select {
		case err := <-result:
			if !errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrUnavailable) {
				t.Errorf("Update returned %v, expected ErrUnknown alone", err)
			}
		case <-time.After(time.Hour):
			t.Error("Update still waits for the store after an hour")
			f.db.SetChances(nil)
			<-result
		}
	})
}

// An error of the closure leaves no trace, and a transaction that only reads
// writes no row.
func TestSessionRow(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		session := f.Session()
		defer session.Release()
		own := errors.New("own")
		for _, fn := range []func(tx kv.Tx) error{
			func(tx kv.Tx) error {
				_, err := tx.Get([]byte("x"))
				return err
			},
			func(tx kv.Tx) error {
				tx.Set([]byte("x"), nil)
				return own
			},
		} {
			if err := session.Update(t.Context(), fn); err != nil && err != own {
				t.Fatal(err)
			}
			if rows := f.rows("n"); len(rows) > 0 {
				t.Errorf("there is a row %q", rows[0].Key)
			}
		}
		last := uint64(0)
		for what, write := range map[string]func(kv.Tx){
			"Set":        func(tx kv.Tx) { tx.Set([]byte("\xfex"), nil) },
			"Clear":      func(tx kv.Tx) { tx.Clear([]byte("\xfex")) },
			"ClearRange": func(tx kv.Tx) { tx.ClearRange([]byte("\xfex"), []byte("\xfey")) },
			"Add":        func(tx kv.Tx) { tx.Add([]byte("\xfex"), 1) },
			"Max":        func(tx kv.Tx) { tx.Max([]byte("\xfex"), 1) },
		} {
			err := session.Update(t.Context(), func(tx kv.Tx) error {
				write(tx)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			rows := f.rows("n")
			if len(rows) != 1 {
				t.Fatalf("%s left %d session rows, expected one", what, len(rows))
			}
			attempt := kv.DecodeInteger(rows[0].Value)
			if attempt <= last {
				t.Errorf("%s left the session row at %d, it was %d before", what, attempt, last)
			}
			last = attempt
		}
	})
}

// Unknown results at every turn, also while finding out about others.
func TestSessionUnderManyFaults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.db.SetChances(fault.Chances{
			fault.Conflict: 0.1, fault.UnknownNever: 0.2, fault.UnknownDone: 0.2, fault.UnknownLate: 0.2,
		})
		const pushes = 200
		for i := range pushes {
			f.pushed("q", 0, fmt.Sprint(i))
		}
		seen := 0
		for {
			popped := f.pop("q", fdbpq.Min, 7)
			if len(popped.Items) == 0 {
				break
			}
			for _, item := range popped.Items {
				if string(item.Payload) != fmt.Sprint(seen) {
					t.Fatalf("item %d is %q", seen, item.Payload)
				}
				seen++
			}
		}
		if seen != pushes {
			t.Errorf("took %d items of %d", seen, pushes)
		}
		f.db.SetChances(nil)
	})
}

// The rows of processes that died are cleared in time, those of others are not,
// and a process that was silent for too long says that it does not know.
func TestRetireSessions(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		gone, silent := f.another(0), f.another(0)
		for _, p := range []*fixture{gone, silent} {
			for range 3 {
				p.pass(2 * time.Second)
			}
		}
		session := silent.Session()
		pushOne := func(tx kv.Tx) error {
			_, err := silent.Queue("q").Push(tx, fdbpq.NewItem{})
			return err
		}
		if err := session.Update(t.Context(), pushOne); err != nil {
			t.Fatal(err)
		}
		resolved := silent.Session() // whose only row so far has an unknown result
		silent.db.FailNext(fault.UnknownDone)
		if err := resolved.Update(t.Context(), pushOne); err != nil {
			t.Fatal(err)
		}
		gone.pushed("q", 0, "one")
		retire := func() {
			t.Helper()
			f.pass(time.Second)
			for next, err := f.RetireSessions(t.Context(), nil); next != nil || err != nil; next, err = f.RetireSessions(t.Context(), next) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		f.pushed("q", 0, "one")
		before := len(f.rows("n"))
		for range 50 {
			f.pass(time.Minute)
			retire()
		}
		if n := len(f.rows("n")); n < before {
			t.Fatalf("%d of %d rows are left after less than an hour", n, before)
		}
		for range 15 {
			f.pass(time.Minute)
			retire()
		}
		if rows := f.rows("n"); len(rows) != 2 {
			t.Errorf("%d rows are left, expected two of the process that lives: %q", len(rows), rows)
		}
		for what, session := range map[string]*fdbpq.Session{"certain": session, "resolved": resolved} {
			silent.db.FailNext(fault.UnknownNever)
			if err := session.Update(t.Context(), pushOne); !errors.Is(err, kv.ErrUnknown) {
				t.Errorf("Update with its trace retired, after a result that was %s, returned %v, expected ErrUnknown", what, err)
			}
		}
		n := f.counts("q").Ready
		for _, kind := range []fault.Kind{fault.None, fault.UnknownNever, fault.UnknownDone} {
			silent.db.FailNext(kind)
			if err := session.Update(t.Context(), pushOne); err != nil {
				t.Errorf("%v after a long silence: %v", kind, err)
			}
			if n++; f.counts("q").Ready != n {
				t.Errorf("%v after a long silence: %d items, expected %d", kind, f.counts("q").Ready, n)
			}
		}
	})
}

// A process that was silent and tells that it is alive just when its rows are
// about to be cleared keeps them.
func TestRetireSessionsSparesWhoComesBack(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		silent := f.another(0)
		together(5*time.Second, f, silent)
		silent.pushed("q", 0, "one")
		f.pass(2 * time.Hour)
		rows := len(f.rows("n"))
		retirer := f.another(0)
		called := false
		retirer.hook = func(at fault.Point) {
			if at == fault.BeforeCommit {
				retirer.hook, called = nil, true
				if err := silent.heartbeat.Beat(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
		if _, err := retirer.RetireSessions(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if left := len(f.rows("n")); left != rows || !called {
			t.Errorf("%d of %d rows are left, called %v", left, rows, called)
		}
	})
}
