package fdbpq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fault"
)

// bench is a store with one process, whose connection and clock a test rules.
type bench struct {
	testing.TB
	*fdbpq.Store
	base  kv.DB
	db    *fault.DB         // base, as this process meets it
	hook  func(fault.Point) // of db, when set
	clock *testClock
	pulse *fdbpq.Heartbeat
}

func newBench(t testing.TB, db kv.DB) *bench {
	t.Helper()
	b := &bench{TB: t, base: db, clock: newTestClock()}
	b.join(b.clock.options(0))
	return b
}

// join opens the store for another process.
func (b *bench) join(options fdbpq.Options) {
	b.Helper()
	b.db = fault.Wrap(b.base, fault.Options{Hook: func(_ context.Context, at fault.Point) {
		if b.hook != nil {
			b.hook(at)
		}
	}})
	store, err := fdbpq.Open(b.Context(), b.db, options)
	if err != nil {
		b.Fatal(err)
	}
	b.Store, b.pulse = store, fdbpq.NewHeartbeat(store)
}

// another is a second process on the same store, while this one runs on.
func (b *bench) another(skew time.Duration) *bench {
	options := b.clock.options(skew)
	options.Wait = func(ctx context.Context, d time.Duration) error {
		b.clock.advance(d)
		return b.pulse.Beat(ctx)
	}
	return b.opened(options)
}

// next is a process that opens the store when this one has ended.
func (b *bench) next(skew time.Duration) *bench { return b.opened(b.clock.options(skew)) }

func (b *bench) opened(options fdbpq.Options) *bench {
	other := &bench{TB: b.TB, base: b.base, clock: b.clock}
	other.join(options)
	return other
}

// openBench opens a store that is checked and closed when the test ends.
func openBench(t *testing.T, open func() kv.DB) *bench {
	db := open()
	b := newBench(t, db)
	t.Cleanup(func() {
		b.db.Release()
		problems, err := b.Check(context.Background())
		if err != nil {
			t.Errorf("check: %v", err)
		}
		for _, problem := range problems {
			t.Errorf("check: %s", problem)
		}
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// update runs a transaction that must commit.
func (b *bench) update(fn func(kv.Tx) error) {
	b.Helper()
	update(b.TB, b.Store, fn)
}

// fails runs a transaction that must fail, and returns how.
func (b *bench) fails(fn func(kv.Tx) error) error {
	b.Helper()
	session := b.Session()
	defer session.Release()
	err := session.Update(b.Context(), fn)
	if err == nil {
		b.Fatal("the transaction committed, expected an error")
	}
	return err
}

func (b *bench) view(fn func(kv.Reader) error) {
	b.Helper()
	if err := b.View(b.Context(), fn); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) push(queue string, items ...fdbpq.NewItem) []fdbpq.Pushed {
	b.Helper()
	var pushed []fdbpq.Pushed
	b.update(func(tx kv.Tx) (err error) {
		pushed, err = b.Queue(queue).Push(tx, items...)
		return err
	})
	return pushed
}

// pushed pushes items of one priority that must be taken in.
func (b *bench) pushed(queue string, priority int64, payloads ...string) []fdbpq.ID {
	b.Helper()
	var ids []fdbpq.ID
	for _, payload := range payloads {
		p := b.push(queue, fdbpq.NewItem{Payload: []byte(payload), Priority: priority, HasPriority: true})[0]
		if p.Err != nil {
			b.Fatalf("push %q: %v", payload, p.Err)
		}
		ids = append(ids, p.ID)
	}
	return ids
}

func (b *bench) take(queue string, end fdbpq.End, limit int) fdbpq.Popped {
	b.Helper()
	var popped fdbpq.Popped
	b.update(func(tx kv.Tx) (err error) {
		popped, err = b.Queue(queue).Pop(tx, fdbpq.Selection{End: end, Limit: limit})
		return err
	})
	return popped
}

func (b *bench) lease(queue string, end fdbpq.End, limit int, d time.Duration) fdbpq.Popped {
	b.Helper()
	var popped fdbpq.Popped
	b.update(func(tx kv.Tx) (err error) {
		popped, err = b.Queue(queue).Lease(tx, fdbpq.Selection{End: end, Limit: limit}, d)
		return err
	})
	return popped
}

// leaseOne leases the first item, which must be there.
func (b *bench) leaseOne(queue string, d time.Duration) fdbpq.Item {
	b.Helper()
	popped := b.lease(queue, fdbpq.Min, 1, d)
	if len(popped.Items) != 1 {
		b.Fatalf("leased %d items (%s), expected one", len(popped.Items), popped.Reason)
	}
	return popped.Items[0]
}

func (b *bench) counts(queue string) fdbpq.Counts {
	b.Helper()
	var n fdbpq.Counts
	b.view(func(r kv.Reader) (err error) {
		n, err = b.Queue(queue).Counts(r)
		return err
	})
	return n
}

func (b *bench) get(queue string, id fdbpq.ID) *fdbpq.StoredItem {
	b.Helper()
	var stored *fdbpq.StoredItem
	b.view(func(r kv.Reader) (err error) {
		stored, err = b.Queue(queue).Get(r, id)
		return err
	})
	return stored
}

func (b *bench) configure(queue, object string) {
	b.Helper()
	b.update(func(tx kv.Tx) error {
		_, err := b.Queue(queue).Configure(tx, []byte(object))
		return err
	})
}

// settle does something with a lease and returns its error.
func (b *bench) settle(fn func(kv.Tx) (fdbpq.Settled, error)) error {
	b.Helper()
	session := b.Session()
	defer session.Release()
	return session.Update(b.Context(), func(tx kv.Tx) error {
		_, err := fn(tx)
		return err
	})
}

func (b *bench) ack(lease fdbpq.Lease) error {
	b.Helper()
	return b.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return b.Queue(lease.Queue).Ack(tx, lease) })
}

func (b *bench) nack(lease fdbpq.Lease, delay time.Duration) error {
	b.Helper()
	return b.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return b.Queue(lease.Queue).Nack(tx, lease, delay) })
}

// pass lets time pass, of which the process tells the store.
func (b *bench) pass(d time.Duration) {
	b.Helper()
	b.clock.advance(d)
	if err := b.pulse.Beat(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// sweep does all that is due and returns what happened.
func (b *bench) sweep() []fdbpq.Event {
	b.Helper()
	var events []fdbpq.Event
	for {
		swept, err := b.Sweep(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		events = append(events, swept.Events...)
		if swept.Timers == 0 {
			return events
		}
	}
}

func payloads(items []fdbpq.Item) []string {
	all := []string{}
	for _, item := range items {
		all = append(all, string(item.Payload))
	}
	return all
}

// A transaction whose result is unknown took effect and is not done again, or
// did not and is, or is still under way and never will.
func TestSessionResolvesUnknownResults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		unknown := []fault.Kind{fault.UnknownNever, fault.UnknownDone, fault.UnknownLate}
		for _, kind := range unknown {
			for _, then := range append(unknown, fault.None) {
				p := b.another(0)
				p.db.FailNext(kind, then)
				queue := fmt.Sprint(kind, " then ", then)
				p.pushed(queue, 0, "once")
				p.db.Release()
				if n := b.counts(queue).Ready; n != 1 {
					t.Errorf("%s: %d items after one push", queue, n)
				}
			}
		}
	})
}

// When the context has ended meanwhile the transaction is not tried again, and
// what is still under way must not take effect behind the caller's back.
func TestSessionVoidsWhatIsStillUnderWay(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		session := b.Session()
		defer session.Release()
		ctx, cancel := context.WithCancel(t.Context())
		b.db.FailNext(fault.UnknownLate)
		err := session.Update(ctx, func(tx kv.Tx) error {
			cancel()
			_, err := b.Queue("q").Push(tx, fdbpq.NewItem{})
			return err
		})
		if err == nil || errors.Is(err, kv.ErrUnknown) {
			t.Fatalf("Update returned %v, expected an error that says that nothing was done", err)
		}
		if b.db.Release() > 0 || b.counts("q").Ready != 0 {
			t.Error("the transaction took effect after Update had returned without it")
		}
	})
}

// A store that goes away before the result is known leaves it unknown, and the
// error claims nothing else.
func TestSessionUnknownStaysUnknown(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		p := b.another(0)
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
		b := openBench(t, open)
		session := b.Session()
		defer session.Release()
		b.db.FailNext(fault.UnknownDone, fault.Unavailable, fault.Unavailable, fault.Unavailable)
		err := session.Update(t.Context(), func(tx kv.Tx) error {
			_, err := b.Queue("q").Push(tx, fdbpq.NewItem{})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if n := b.counts("q").Ready; n != 1 {
			t.Errorf("%d items after one push", n)
		}
	})
}

// An error of the closure leaves no trace, and a transaction that only reads
// writes no row.
func TestSessionRow(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		session := b.Session()
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
			if rows := b.rows("n"); len(rows) > 0 {
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
			rows := b.rows("n")
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

// rows are all rows of a space.
func (b *bench) rows(space string) []kv.Pair {
	b.Helper()
	prefix := "\x02" + space
	var pairs []kv.Pair
	b.view(func(r kv.Reader) (err error) {
		pairs, err = r.Range([]byte(prefix+"\x00"), []byte(prefix+"\x01"), kv.RangeOptions{Limit: 1 << 20})
		return err
	})
	return pairs
}

// Unknown results at every turn, also while finding out about others.
func TestSessionUnderManyFaults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.db.SetChances(fault.Chances{
			fault.Conflict: 0.1, fault.UnknownNever: 0.2, fault.UnknownDone: 0.2, fault.UnknownLate: 0.2,
		})
		const pushes = 200
		for i := range pushes {
			b.pushed("q", 0, fmt.Sprint(i))
		}
		seen := 0
		for {
			popped := b.take("q", fdbpq.Min, 7)
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
		b.db.SetChances(nil)
	})
}

// The rows of processes that died are cleared in time, those of others are not,
// and a process that was silent for too long says that it does not know.
func TestRetireSessions(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		gone, silent := b.another(0), b.another(0)
		for _, p := range []*bench{gone, silent} {
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
		gone.pushed("q", 0, "one")
		retire := func() {
			t.Helper()
			b.pass(time.Second)
			for next, err := b.RetireSessions(t.Context(), nil); next != nil || err != nil; next, err = b.RetireSessions(t.Context(), next) {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		b.pushed("q", 0, "one")
		before := len(b.rows("n"))
		for range 50 {
			b.pass(time.Minute)
			retire()
		}
		if n := len(b.rows("n")); n < before {
			t.Fatalf("%d of %d rows are left after less than an hour", n, before)
		}
		for range 15 {
			b.pass(time.Minute)
			retire()
		}
		if rows := b.rows("n"); len(rows) != 2 {
			t.Errorf("%d rows are left, expected two of the process that lives: %q", len(rows), rows)
		}
		silent.db.FailNext(fault.UnknownNever)
		if err := session.Update(t.Context(), pushOne); !errors.Is(err, kv.ErrUnknown) {
			t.Errorf("Update with its trace retired returned %v, expected ErrUnknown", err)
		}
		n := b.counts("q").Ready
		for _, kind := range []fault.Kind{fault.None, fault.UnknownNever, fault.UnknownDone} {
			silent.db.FailNext(kind)
			if err := session.Update(t.Context(), pushOne); err != nil {
				t.Errorf("%v after a long silence: %v", kind, err)
			}
			if n++; b.counts("q").Ready != n {
				t.Errorf("%v after a long silence: %d items, expected %d", kind, b.counts("q").Ready, n)
			}
		}
	})
}

// A process that was silent and tells that it is alive just when its rows are
// about to be cleared keeps them.
func TestRetireSessionsSparesWhoComesBack(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		silent := b.another(0)
		together(5*time.Second, b, silent)
		silent.pushed("q", 0, "one")
		b.pass(2 * time.Hour)
		rows := len(b.rows("n"))
		retirer := b.another(0)
		called := false
		retirer.hook = func(at fault.Point) {
			if at == fault.BeforeCommit {
				retirer.hook, called = nil, true
				if err := silent.pulse.Beat(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
		if _, err := retirer.RetireSessions(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if left := len(b.rows("n")); left != rows || !called {
			t.Errorf("%d of %d rows are left, called %v", left, rows, called)
		}
	})
}
