package fdbpq_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fault"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
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

// Many takers at once get every item exactly once, leased or for good.
func TestPopStagedServesEveryItemOnce(t *testing.T) {
	t.Parallel()
	const items, takers = 600, 16
	for _, lease := range []time.Duration{0, time.Minute} {
		t.Run(fmt.Sprint("lease ", lease), func(t *testing.T) {
			s := openLocal(t, fdbpq.Options{})
			for i := range items {
				push(t, s, "q", fmt.Sprint(i))
			}
			var mu sync.Mutex
			got := make(map[string]int)
			var wg sync.WaitGroup
			for range takers {
				wg.Go(func() {
					for {
						popped, err := s.PopStaged(t.Context(), "q", fdbpq.Selection{End: fdbpq.Min, Limit: 1}, lease)
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

// While somebody's request stands, a take that would win registers behind it.
func TestPopStagedDoesNotOvertakeRequests(t *testing.T) {
	t.Parallel()
	s := openLocal(t, fdbpq.Options{})
	push(t, s, "q", "a", "b")
	first := fdbpq.NewStagedRequest(s, "q", fdbpq.Selection{End: fdbpq.Min, Limit: 1})
	if err := first.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, err := s.PopStaged(t.Context(), "q", fdbpq.Selection{End: fdbpq.Min, Limit: 1}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(second.Items[0].Payload); got != "b" {
		t.Errorf("the later take got %q, want %q", got, "b")
	}
	popped, answered, err := first.Fetch(t.Context())
	if err != nil || !answered {
		t.Fatalf("the earlier request was not answered: %v", err)
	}
	if got := string(popped.Items[0].Payload); got != "a" {
		t.Errorf("the earlier take got %q, want %q", got, "a")
	}
	// An answer is collected once.
	if _, _, err := first.Fetch(t.Context()); !errors.Is(err, fdbpq.ErrContended) {
		t.Errorf("collecting again: %v, want %v", err, fdbpq.ErrContended)
	}
}

// A request whose owner died gives back what was reserved for it and leaves
// nothing behind.
func TestPopStagedOwnerDies(t *testing.T) {
	t.Parallel()
	clock := newTestClock()
	s := openLocal(t, clock.options(0))
	push(t, s, "q", "a")
	dead := fdbpq.NewStagedRequest(s, "q", fdbpq.Selection{End: fdbpq.Min, Limit: 1})
	if err := dead.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if popped, err := s.PopStaged(t.Context(), "q", fdbpq.Selection{End: fdbpq.Min, Limit: 1}, 0); err != nil || len(popped.Items) > 0 {
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
	popped, err := s.PopStaged(t.Context(), "q", fdbpq.Selection{End: fdbpq.Min, Limit: 1}, 0)
	if err != nil || len(popped.Items) != 1 {
		t.Fatalf("got %v, %v; want the item back", popped.Items, err)
	}
	if _, answered, err := dead.Fetch(t.Context()); answered || !errors.Is(err, fdbpq.ErrContended) {
		t.Errorf("the dead owner's answer: %v, %v", answered, err)
	}
}

// Wherever an owner dies, its items come back and nothing of its request stays.
func TestPopStagedLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.pushed("q", 0, "one", "two", "three")
		for step, name := range []string{"it has registered", "it has fulfilled", "it has collected"} {
			standing := fdbpq.NewStagedRequest(b.Store, "q", oneItem)
			if err := standing.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			dead := b.another(0)
			commits := 0
			dead.hook = func(at fault.Point) {
				if at != fault.AfterCommit {
					return
				}
				if commits++; commits == step+1 {
					dead.db.Crash()
				}
			}
			if _, err := dead.PopStaged(t.Context(), "q", oneItem, 5*time.Second); err == nil {
				t.Fatalf("after %s it was to die", name)
			}
			if commits != step+1 {
				t.Errorf("after %s it had committed %d times", name, commits)
			}
			together(11*time.Second, b)
			b.sweep()
			if n := b.counts("q"); n.Ready != 3 || n.Leased != 0 {
				t.Errorf("after %s there are %+v", name, n)
			}
			for _, space := range []string{"o", "e", "z"} {
				if rows := b.rows(space); len(rows) > 0 {
					t.Errorf("after %s there are %d rows of kind %q left", name, len(rows), space)
				}
			}
		}
	})
}
