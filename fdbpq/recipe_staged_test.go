package fdbpq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/fdbpq/recipe"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// openLocal returns a store on an embedded engine, which must hold all
// invariants when the test ends.
func openLocal(t testing.TB, options fdbpq.Options) *fdbpq.Store {
	t.Helper()
	db, err := local.Open(t.TempDir(), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := fdbpq.Open(t.Context(), db, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		problems, err := store.Check(context.Background())
		if err != nil {
			t.Error(err)
		}
		for _, problem := range problems {
			t.Error(problem)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// update runs fn in a transaction that must succeed.
func update(t testing.TB, s *fdbpq.Store, fn func(kv.Tx) error) {
	t.Helper()
	session := s.Session()
	defer session.Release()
	if err := session.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func push(t testing.TB, s *fdbpq.Store, queue string, payloads ...string) {
	t.Helper()
	update(t, s, func(tx kv.Tx) error {
		for _, payload := range payloads {
			if _, err := s.Queue(queue).Push(tx, fdbpq.NewItem{Payload: []byte(payload)}); err != nil {
				return err
			}
		}
		return nil
	})
}

// Many concurrent pops get every item exactly once, leased or for good.
func TestStagedServesEveryItemOnce(t *testing.T) {
	t.Parallel()
	const items, poppers = 600, 16
	for _, lease := range []time.Duration{0, time.Minute} {
		t.Run(fmt.Sprint("lease ", lease), func(t *testing.T) {
			s := openLocal(t, fdbpq.Options{})
			pops := recipe.New(s)
			for i := range items {
				push(t, s, "q", fmt.Sprint(i))
			}
			var mu sync.Mutex
			got := make(map[string]int)
			var wg sync.WaitGroup
			for range poppers {
				wg.Go(func() {
					for {
						popped, err := pops.Staged(t.Context(), "q", fdbpq.Selection{End: fdbpq.Min, Limit: 1}, lease)
						if err != nil {
							t.Error(err)
							return
						}
						if len(popped.Items) == 0 {
							return
						}
						mu.Lock()
						got[string(popped.Items[0].Payload)]++
						mu.Unlock()
						if (popped.Items[0].Lease == nil) != (lease == 0) {
							t.Errorf("lease is %v", popped.Items[0].Lease)
						}
						if lease != 0 && popped.Items[0].Deliveries != 1 {
							t.Errorf("deliveries are %d, want 1", popped.Items[0].Deliveries)
						}
					}
				})
			}
			wg.Wait()
			if len(got) != items {
				t.Errorf("%d items arrived, want %d", len(got), items)
			}
			for payload, n := range got {
				if n != 1 {
					t.Errorf("item %s arrived %d times", payload, n)
				}
			}
		})
	}
}

// While there is a request, a pop that would win registers behind it.
func TestStagedDoesNotOvertakeRequests(t *testing.T) {
	t.Parallel()
	s := openLocal(t, fdbpq.Options{})
	pops := recipe.New(s)
	push(t, s, "q", "a", "b")
	first := pops.Request("q", fdbpq.Selection{End: fdbpq.Min, Limit: 1}, 0)
	if err := first.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, err := pops.Staged(t.Context(), "q", fdbpq.Selection{End: fdbpq.Min, Limit: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(second.Items[0].Payload); got != "b" {
		t.Errorf("the later pop got %q, want %q", got, "b")
	}
	popped, answered, err := first.Fetch(t.Context())
	if err != nil || !answered {
		t.Fatalf("the earlier request was not answered: %v", err)
	}
	if got := string(popped.Items[0].Payload); got != "a" {
		t.Errorf("the earlier pop got %q, want %q", got, "a")
	}
	// An answer is collected once.
	if _, _, err := first.Fetch(t.Context()); !errors.Is(err, recipe.ErrContended) {
		t.Errorf("collecting again: %v, want %v", err, recipe.ErrContended)
	}
}

// A request whose owner died gives back what was reserved for it and leaves
// nothing behind.
func TestStagedOwnerDies(t *testing.T) {
	t.Parallel()
	clock := newTestClock()
	s := openLocal(t, clock.options(0))
	pops := recipe.New(s)
	push(t, s, "q", "a")
	dead := pops.Request("q", fdbpq.Selection{End: fdbpq.Min, Limit: 1}, 0)
	if err := dead.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if popped, err := pops.Staged(t.Context(), "q", fdbpq.Selection{End: fdbpq.Min, Limit: 1}, 0); err != nil || len(popped.Items) > 0 {
		t.Fatalf("got %v, %v; want nothing: the item is reserved", popped.Items, err)
	}
	clock.advance(11 * time.Second)
	for {
		swept, err := s.Sweep(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if swept.Timers == 0 {
			break
		}
	}
	popped, err := pops.Staged(t.Context(), "q", fdbpq.Selection{End: fdbpq.Min, Limit: 1}, 0)
	if err != nil || len(popped.Items) != 1 {
		t.Fatalf("got %v, %v; want the item back", popped.Items, err)
	}
	if _, answered, err := dead.Fetch(t.Context()); answered || !errors.Is(err, recipe.ErrContended) {
		t.Errorf("the dead owner's answer: %v, %v", answered, err)
	}
}

// Wherever an owner dies, its items come back and nothing of its request stays.
func TestStagedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "one", "two", "three")
		for step, name := range []string{"it has registered", "it has fulfilled", "it has collected"} {
			standing := f.Request("q", oneItem, 0)
			if err := standing.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			dead := f.another(0)
			commits := 0
			dead.hook = func(at fault.Point) {
				if at != fault.AfterCommit {
					return
				}
				if commits++; commits == step+1 {
					dead.db.Crash()
				}
			}
			if _, err := dead.Staged(t.Context(), "q", oneItem, 5*time.Second); err == nil {
				t.Fatalf("after %s it was to die", name)
			}
			if commits != step+1 {
				t.Errorf("after %s it had committed %d times", name, commits)
			}
			together(11*time.Second, f)
			f.sweep()
			if n := f.counts("q"); n.Ready != 3 || n.Leased != 0 {
				t.Errorf("after %s there are %+v", name, n)
			}
			for _, space := range []string{"o", "e", "z"} {
				if rows := f.rows(space); len(rows) > 0 {
					t.Errorf("after %s there are %d rows of kind %q left", name, len(rows), space)
				}
			}
		}
	})
}

// Whichever owner fulfils a request, it gets items from its own end, and no more than it
// asked for.
func TestStagedDirection(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for i := range 6 {
			f.pushed("q", int64(i), fmt.Sprint(i))
		}
		requests := []*recipe.Request{
			f.Request("q", fdbpq.Selection{End: fdbpq.Max, Limit: 1}, 0),
			f.Request("q", fdbpq.Selection{End: fdbpq.Min, Limit: 1}, 0),
			f.Request("q", fdbpq.Selection{End: fdbpq.Max, Limit: 1, Band: &fdbpq.Band{Low: 0, High: 2}}, 0),
		}
		for _, r := range requests {
			if err := r.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		popped, err := f.another(0).Staged(t.Context(), "q", fdbpq.Selection{End: fdbpq.Min, Limit: 2}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(payloads(popped.Items)); got != "[1 3]" {
			t.Errorf("the last request got %s", got)
		}
		for i, want := range []string{"[5]", "[0]", "[2]"} {
			popped, answered, err := requests[i].Fetch(t.Context())
			if err != nil || !answered {
				t.Fatalf("request %d: answered %v, %v", i, answered, err)
			}
			if got := fmt.Sprint(payloads(popped.Items)); got != want {
				t.Errorf("request %d got %s, expected %s", i, got, want)
			}
		}
	})
}

// A request is answered once: a late answer, by an earlier state of the queue, changes
// nothing.
func TestStagedAnswersOnce(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{}`)
		sel := fdbpq.Selection{Limit: 1}
		request := f.Request("q", sel, 0)
		if err := request.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		late, parked, resume := f.another(0), make(chan struct{}), make(chan struct{})
		commits := 0
		late.hook = func(at fault.Point) {
			if at != fault.BeforeCommit {
				return
			}
			if commits++; commits == 2 { // behind its own registration: it answers
				close(parked)
				<-resume
			}
		}
		done := make(chan error, 1)
		go func() {
			popped, err := late.Staged(t.Context(), "q", sel, 0)
			if len(popped.Items) > 0 {
				err = fmt.Errorf("took %q", payloads(popped.Items))
			}
			done <- err
		}()
		<-parked
		f.pushed("q", 0, "one")
		if _, err := f.another(0).Staged(t.Context(), "q", sel, 0); err != nil {
			t.Fatal(err)
		}
		popped, answered, err := request.Fetch(t.Context())
		if got := payloads(popped.Items); err != nil || !answered || len(got) != 1 {
			t.Errorf("the request got %q, %v", got, err)
		}
		close(resume)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if rows := f.rows("e"); len(rows) > 0 {
			t.Errorf("there are %d results that nobody will collect", len(rows))
		}
	})
}

// Unknown results in the steps of staged pops neither lose an item nor deliver it twice,
// and leave no request behind.
func TestStagedUnknownResults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		const items = 120
		for i := range items {
			f.pushed("q", 0, fmt.Sprint(i))
		}
		var mu sync.Mutex
		var got []string
		var wg sync.WaitGroup
		for i := range uint64(4) {
			db := fault.Wrap(f.base, fault.Options{Seed: i, Yield: true})
			s, err := fdbpq.Open(t.Context(), db, f.clock.options(0))
			if err != nil {
				t.Fatal(err)
			}
			pops := recipe.New(s)
			db.SetChances(fault.Chances{fault.Conflict: 0.2, fault.UnknownNever: 0.1, fault.UnknownDone: 0.1, fault.UnknownLate: 0.1})
			wg.Go(func() {
				defer db.Release()
				for {
					popped, err := pops.Staged(t.Context(), "q", fdbpq.Selection{Limit: 2}, 0)
					if err != nil {
						t.Error(err)
						return
					}
					if len(popped.Items) == 0 && popped.Reason == fdbpq.ReasonEmpty {
						return
					}
					mu.Lock()
					got = append(got, payloads(popped.Items)...)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		slices.Sort(got)
		if n := len(slices.Compact(slices.Clone(got))); n != items || len(got) != items {
			t.Errorf("took %d items, %d different ones, of %d", len(got), n, items)
		}
		for _, space := range []string{"o", "e"} {
			if rows := f.rows(space); len(rows) > 0 {
				t.Errorf("%d rows of requests are left", len(rows))
			}
		}
	})
}

// Many requests for many large items are answered bit by bit.
func TestStagedLargeItems(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.fill("q", 40, fdbpq.NewItem{Payload: make([]byte, 32<<10)})
		f.fill("q", 40, fdbpq.NewItem{Payload: make([]byte, 600_000)})
		var requests []*recipe.Request
		for range 7 {
			r := f.Request("q", fdbpq.Selection{Limit: 20, End: fdbpq.Min}, 0)
			if err := r.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			requests = append(requests, r)
		}
		last, err := f.Staged(t.Context(), "q", fdbpq.Selection{Limit: 1000}, 0)
		if err != nil {
			t.Fatal(err)
		}
		n := len(last.Items)
		for _, r := range requests {
			popped, answered, err := r.Fetch(t.Context())
			if err != nil || !answered {
				t.Fatalf("answered %v, %v", answered, err)
			}
			n += len(popped.Items)
		}
		for f.counts("q").Ready > 0 {
			n += len(f.pop("q", fdbpq.Min, 1000).Items)
		}
		if n != 80 {
			t.Errorf("took %d of 80 items", n)
		}
	})
}
