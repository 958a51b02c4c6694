package fdbpq_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/recipe"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// fixture is a store opened by one process. A test controls the process's connection
// and its clock.
type fixture struct {
	testing.TB
	*fdbpq.Store
	base      kv.DB
	db        *fault.DB         // base, with faults between it and the process
	hook      func(fault.Point) // of db, when set
	clock     *testClock
	heartbeat *fdbpq.Heartbeat
	schedules *schedule.Schedules
	sources   *source.Sources
	*recipe.Pops
}

func newFixture(t testing.TB, db kv.DB) *fixture {
	t.Helper()
	f := &fixture{TB: t, base: db, clock: newTestClock()}
	f.join(f.clock.options(0))
	return f
}

// join opens the store for another process.
func (f *fixture) join(options fdbpq.Options) {
	f.Helper()
	f.db = fault.Wrap(f.base, fault.Options{Hook: func(_ context.Context, at fault.Point) {
		if f.hook != nil {
			f.hook(at)
		}
	}})
	store, err := fdbpq.Open(f.Context(), f.db, options)
	if err != nil {
		f.Fatal(err)
	}
	f.Store, f.heartbeat, f.Pops = store, fdbpq.NewHeartbeat(store), recipe.New(store)
	f.schedules, f.sources = schedule.New(store), source.New(store)
}

// another opens the store in a second process, while this one runs.
func (f *fixture) another(skew time.Duration) *fixture {
	options := f.clock.options(skew)
	options.Wait = func(ctx context.Context, d time.Duration) error {
		f.clock.advance(d)
		return f.heartbeat.Beat(ctx)
	}
	return f.opened(options)
}

// next opens the store in a process after this one has ended.
func (f *fixture) next(skew time.Duration) *fixture { return f.opened(f.clock.options(skew)) }

func (f *fixture) opened(options fdbpq.Options) *fixture {
	other := &fixture{TB: f.TB, base: f.base, clock: f.clock}
	other.join(options)
	return other
}

// openFixture opens a store. When the test ends, it is checked and closed.
func openFixture(t *testing.T, open func() kv.DB) *fixture {
	db := open()
	f := newFixture(t, db)
	t.Cleanup(func() {
		f.db.Release()
		problems, err := storecheck.Check(context.Background(), f.Store)
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
	return f
}

// update runs a transaction that must commit.
func (f *fixture) update(fn func(kv.Tx) error) {
	f.Helper()
	update(f.TB, f.Store, fn)
}

// together runs a transaction of operations that belong together.
func (f *fixture) together(fn func(kv.Tx, *fdbpq.Work) error) {
	f.Helper()
	f.update(func(tx kv.Tx) error {
		return f.In(tx, func(w *fdbpq.Work) error { return fn(tx, w) })
	})
}

// fails runs a transaction that must fail, and returns how.
func (f *fixture) fails(fn func(kv.Tx) error) error {
	f.Helper()
	session := f.Session()
	defer session.Release()
	err := session.Update(f.Context(), fn)
	if err == nil {
		f.Fatal("the transaction committed, expected an error")
	}
	return err
}

func (f *fixture) view(fn func(kv.Reader) error) {
	f.Helper()
	if err := f.View(f.Context(), fn); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) push(queue string, items ...fdbpq.NewItem) []fdbpq.Pushed {
	f.Helper()
	var pushed []fdbpq.Pushed
	f.update(func(tx kv.Tx) (err error) {
		pushed, err = f.Queue(queue).Push(tx, items...)
		return err
	})
	return pushed
}

// pushed pushes items of one priority, and fails the test if one is refused.
func (f *fixture) pushed(queue string, priority int64, payloads ...string) []fdbpq.ID {
	f.Helper()
	var ids []fdbpq.ID
	for _, payload := range payloads {
		p := f.push(queue, fdbpq.NewItem{Payload: []byte(payload), Priority: priority, HasPriority: true})[0]
		if p.Err != nil {
			f.Fatalf("push %q: %v", payload, p.Err)
		}
		ids = append(ids, p.ID)
	}
	return ids
}

// pushBehindExpired pushes an item behind more items past their TTL than one pop removes.
func (f *fixture) pushBehindExpired(queue, payload string) {
	f.Helper()
	expired := make([]fdbpq.NewItem, 300)
	for i := range expired {
		expired[i].TTL = time.Second
	}
	f.push(queue, expired...)
	f.pushed(queue, 1, payload)
	f.pass(time.Second)
}

func (f *fixture) pop(queue string, end fdbpq.End, limit int) fdbpq.Popped {
	f.Helper()
	var popped fdbpq.Popped
	f.update(func(tx kv.Tx) (err error) {
		popped, err = f.Queue(queue).Pop(tx, fdbpq.Selection{End: end, Limit: limit})
		return err
	})
	return popped
}

func (f *fixture) lease(queue string, end fdbpq.End, limit int, d time.Duration) fdbpq.Popped {
	f.Helper()
	var popped fdbpq.Popped
	f.update(func(tx kv.Tx) (err error) {
		popped, err = f.Queue(queue).Lease(tx, fdbpq.Selection{End: end, Limit: limit}, d)
		return err
	})
	return popped
}

// leaseOne leases the first item, and fails the test if there is none.
func (f *fixture) leaseOne(queue string, d time.Duration) fdbpq.Item {
	f.Helper()
	popped := f.lease(queue, fdbpq.Min, 1, d)
	if len(popped.Items) != 1 {
		f.Fatalf("leased %d items (%s), expected one", len(popped.Items), popped.Reason)
	}
	return popped.Items[0]
}

func (f *fixture) counts(queue string) fdbpq.Counts {
	f.Helper()
	var n fdbpq.Counts
	f.view(func(r kv.Reader) (err error) {
		n, err = f.Queue(queue).Counts(r)
		return err
	})
	return n
}

func (f *fixture) get(queue string, id fdbpq.ID) *fdbpq.StoredItem {
	f.Helper()
	var stored *fdbpq.StoredItem
	f.view(func(r kv.Reader) (err error) {
		stored, err = f.Queue(queue).Get(r, id)
		return err
	})
	return stored
}

func (f *fixture) configure(queue, object string) {
	f.Helper()
	f.update(func(tx kv.Tx) error {
		_, err := f.Queue(queue).Configure(tx, []byte(object))
		return err
	})
}

// settle runs a settlement and returns its error.
func (f *fixture) settle(fn func(kv.Tx) (fdbpq.Settled, error)) error {
	f.Helper()
	session := f.Session()
	defer session.Release()
	return session.Update(f.Context(), func(tx kv.Tx) error {
		_, err := fn(tx)
		return err
	})
}

func (f *fixture) ack(lease fdbpq.Lease) error {
	f.Helper()
	return f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue(lease.Queue).Ack(tx, lease) })
}

func (f *fixture) nack(lease fdbpq.Lease, delay time.Duration) error {
	f.Helper()
	return f.settle(func(tx kv.Tx) (fdbpq.Settled, error) {
		return f.Queue(lease.Queue).Nack(tx, lease, fdbpq.Nack{Delay: &delay})
	})
}

// pass advances the clock, and the process writes the new store time.
func (f *fixture) pass(d time.Duration) {
	f.Helper()
	f.clock.advance(d)
	if err := f.heartbeat.Beat(f.Context()); err != nil {
		f.Fatal(err)
	}
}

// sweep does all that is due and returns what happened.
func (f *fixture) sweep() []fdbpq.Event {
	f.Helper()
	var events []fdbpq.Event
	for {
		swept, err := f.Sweep(f.Context())
		if err != nil {
			f.Fatal(err)
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

// rows are all rows of a space.
func (f *fixture) rows(space string) []kv.Pair {
	f.Helper()
	prefix := "\x02" + space
	var pairs []kv.Pair
	f.view(func(r kv.Reader) (err error) {
		pairs, err = r.Range([]byte(prefix+"\x00"), []byte(prefix+"\x01"), kv.RangeOptions{Limit: 1 << 20})
		return err
	})
	return pairs
}

// lost returns how a lease was lost, "" for another error.
func lost(err error) fdbpq.Lost {
	var e *fdbpq.LostError
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

func (f *fixture) imports(queue string, items ...fdbpq.Import) []fdbpq.Imported {
	f.Helper()
	var imported []fdbpq.Imported
	f.update(func(tx kv.Tx) (err error) {
		imported, err = f.Queue(queue).Import(tx, items...)
		return err
	})
	return imported
}

func (f *fixture) delete(queue string) {
	f.Helper()
	f.update(func(tx kv.Tx) error {
		_, err := f.Queue(queue).Delete(tx)
		return err
	})
}

func (f *fixture) collectGarbage() {
	f.Helper()
	for more := true; more; {
		var err error
		if more, err = f.CollectGarbage(f.Context()); err != nil {
			f.Fatal(err)
		}
		problems, err := storecheck.Check(f.Context(), f.Store)
		if err != nil || len(problems) > 0 {
			f.Fatalf("check: %v %q", err, problems)
		}
	}
}

// now is store time as the process knows it.
func (f *fixture) now() int64 {
	f.Helper()
	now, err := f.Now(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return now
}

// together lets time pass for several processes, a second at a time.
func together(d time.Duration, processes ...*fixture) {
	for ; d > 0; d -= time.Second {
		processes[0].clock.advance(min(d, time.Second))
		for _, p := range processes {
			if err := p.heartbeat.Beat(p.Context()); err != nil {
				p.Fatal(err)
			}
		}
	}
}

// fill pushes n items of a size, a few in a transaction.
func (f *fixture) fill(queue string, n int, item fdbpq.NewItem) {
	f.Helper()
	perTx := max(1, min(n, 4<<20/(2*len(item.Payload)+200)))
	for n > 0 {
		batch := make([]fdbpq.NewItem, min(n, perTx))
		for i := range batch {
			batch[i] = item
		}
		for _, p := range f.push(queue, batch...) {
			if p.Err != nil {
				f.Fatal(p.Err)
			}
		}
		n -= len(batch)
	}
}

func (f *fixture) nacked(l fdbpq.Lease, delay time.Duration) (settled fdbpq.Settled, err error) {
	f.update(func(tx kv.Tx) error {
		settled, err = f.Queue(l.Queue).Nack(tx, l, fdbpq.Nack{Delay: &delay})
		return err
	})
	return settled, err
}

func (f *fixture) returned(l fdbpq.Lease) (settled fdbpq.Settled, err error) {
	f.update(func(tx kv.Tx) error {
		settled, err = f.Queue(l.Queue).Return(tx, l)
		return err
	})
	return settled, err
}

func (f *fixture) giveBack(l fdbpq.Lease, reason string) error {
	f.Helper()
	return f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue(l.Queue).GiveBack(tx, l, reason) })
}

// remove removes an item, leased or not.
func (f *fixture) remove(queue string, id fdbpq.ID) {
	f.Helper()
	f.update(func(tx kv.Tx) error {
		_, err := f.Queue(queue).Remove(tx, id)
		return err
	})
}

// purge empties a queue and clears what was in it.
func (f *fixture) purge(queue string) {
	f.Helper()
	f.update(func(tx kv.Tx) error {
		_, err := f.Queue(queue).Purge(tx)
		return err
	})
	for more := true; more; {
		var err error
		if more, err = f.CollectGarbage(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
}

// peek returns the payloads of the first items.
func (f *fixture) peek(queue string, n int) []string {
	f.Helper()
	var found fdbpq.Popped
	f.view(func(r kv.Reader) (err error) {
		found, err = f.Queue(queue).Peek(r, fdbpq.Selection{Limit: n})
		return err
	})
	return payloads(found.Items)
}
