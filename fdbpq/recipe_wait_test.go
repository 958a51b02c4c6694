package fdbpq_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/recipe"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

var oneItem = fdbpq.Selection{End: fdbpq.Min, Limit: 1}

// awaitLine returns when n pops of all priorities wait at a queue.
func awaitLine(pops *recipe.Pops, n int) {
	for pops.Waiting("q", nil) != n {
		runtime.Gosched()
	}
}

// Waiting pops are served in the order in which they came, each item to one of them.
func TestPopWaitServesInOrder(t *testing.T) {
	t.Parallel()
	s := openLocal(t, fdbpq.Options{})
	pops := recipe.New(s)
	const waiters = 20
	type result struct {
		waiter  int
		payload string
	}
	results := make(chan result)
	for i := range waiters {
		go func() {
			popped, err := pops.Wait(t.Context(), "q", oneItem, 0)
			if err != nil {
				t.Error(err)
				results <- result{waiter: i}
				return
			}
			results <- result{i, string(popped.Items[0].Payload)}
		}()
		awaitLine(pops, i+1)
	}
	for i := range waiters {
		push(t, s, "q", fmt.Sprint(i))
		if got := <-results; got.waiter != i || got.payload != fmt.Sprint(i) {
			t.Errorf("waiter %d got item %q, want waiter and item %d", got.waiter, got.payload, i)
		}
	}
}

// A waiter is served when a rate allows a delivery, and not before, although nothing
// arrives.
func TestPopWaitForRate(t *testing.T) {
	t.Parallel()
	for _, config := range []string{`{"rate":"1/1s"}`, `{"key_rate":"1/1s"}`} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			s := openLocal(t, fdbpq.Options{})
			pops := recipe.New(s)
			update(t, s, func(tx kv.Tx) error {
				_, err := s.Queue("q").Configure(tx, []byte(config))
				return err
			})
			update(t, s, func(tx kv.Tx) error {
				_, err := s.Queue("q").Push(tx, fdbpq.NewItem{Payload: []byte("a"), Key: "k"}, fdbpq.NewItem{Payload: []byte("b"), Key: "k"})
				return err
			})
			started := time.Now()
			for range 2 {
				if popped, err := pops.Wait(t.Context(), "q", oneItem, 0); err != nil || len(popped.Items) != 1 {
					t.Fatal(popped, err)
				}
			}
			if took := time.Since(started); took < time.Second {
				t.Errorf("two items took %s, the rate allows one a second", took)
			}
		})
	}
}

// A waiter that gives up leaves the line, and what arrives goes to the next.
func TestPopWaitGivesUp(t *testing.T) {
	t.Parallel()
	s := openLocal(t, fdbpq.Options{})
	pops := recipe.New(s)
	ctx, giveUp := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := pops.Wait(ctx, "q", oneItem, 0)
		gone <- err
	}()
	awaitLine(pops, 1)
	served := make(chan string)
	go func() {
		popped, err := pops.Wait(t.Context(), "q", oneItem, time.Minute)
		if err != nil || len(popped.Items) != 1 || popped.Items[0].Lease == nil {
			t.Errorf("got %v, %v, expected a leased item", popped.Items, err)
			served <- ""
			return
		}
		served <- string(popped.Items[0].Payload)
	}()
	awaitLine(pops, 2)
	giveUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v, want %v", err, context.Canceled)
	}
	push(t, s, "q", "a")
	if got := <-served; got != "a" {
		t.Errorf("the next one got %q, want %q", got, "a")
	}
}

// Everything that makes an item ready wakes a waiting pop.
func TestPopWaitWakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, wake func(f *fixture) // the waiter waits in between
	}{
		"push": {
			before: func(f *fixture) {},
			wake:   func(f *fixture) { f.pushed("q", 0, "a") },
		},
		"resume": {
			before: func(f *fixture) {
				f.pushed("q", 0, "a")
				f.update(f.Queue("q").Pause)
			},
			wake: func(f *fixture) { f.update(f.Queue("q").Resume) },
		},
		"delay over": {
			before: func(f *fixture) { f.push("q", fdbpq.NewItem{Payload: []byte("a"), Delay: time.Minute}) },
			wake: func(f *fixture) {
				f.pass(time.Minute)
				f.sweep()
			},
		},
		"lease over": {
			before: func(f *fixture) {
				f.pushed("q", 0, "a")
				f.leaseOne("q", time.Minute)
			},
			wake: func(f *fixture) {
				f.pass(time.Minute)
				f.sweep()
			},
		},
		"move into the band": {
			before: func(f *fixture) { f.pushed("q", 100, "a") },
			wake: func(f *fixture) {
				f.update(func(tx kv.Tx) error {
					found, err := f.Queue("q").Peek(tx, oneItem)
					if err == nil {
						_, err = f.Queue("q").Move(tx, found.Items[0].ID, 0)
					}
					return err
				})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base, err := placeLocal(t)()
				if err != nil {
					t.Fatal(err)
				}
				defer base.Close()
				f := newFixture(t, base)
				c.before(f)
				served := make(chan string)
				go func() {
					popped, err := f.another(0).Wait(t.Context(), "q", fdbpq.Selection{Limit: 1, Band: &fdbpq.Band{Low: -1, High: 9}}, 0)
					if err != nil {
						t.Error(err)
						served <- ""
						return
					}
					served <- string(popped.Items[0].Payload)
				}()
				synctest.Wait()
				select {
				case got := <-served:
					t.Fatalf("got %q without waiting", got)
				default:
				}
				c.wake(f)
				select {
				case got := <-served:
					if got != "a" {
						t.Errorf("got %q, want %q", got, "a")
					}
				case <-time.After(time.Hour):
					t.Error("nobody woke the waiter")
				}
			})
		})
	}
}

// However many pops wait, one reads the queue at first, and then as many as there are
// items, and one more.
func TestPopWaitWakesNoHerd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base, err := placeLocal(t)()
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		waiting := newFixture(t, base)
		pusher := waiting.another(0)
		pusher.configure("q", "{}")
		looks := func() int {
			synctest.Wait()
			return waiting.db.Stats().Updates
		}
		before := looks()
		ctx, stop := context.WithCancel(t.Context())
		var served atomic.Int64
		var waiters sync.WaitGroup
		for range 50 {
			waiters.Go(func() {
				if popped, err := waiting.Wait(ctx, "q", oneItem, 0); err == nil {
					served.Add(int64(len(popped.Items)))
				}
			})
		}
		for _, step := range []struct {
			items, looks int
		}{{0, 1}, {1, 2}, {10, 11}, {0, 0}, {3, 4}} {
			if step.items > 0 {
				pusher.push("q", make([]fdbpq.NewItem, step.items)...)
			}
			after := looks()
			if after-before != step.looks {
				t.Errorf("with %d items there were %d looks at the queue, expected %d", step.items, after-before, step.looks)
			}
			before = after
		}
		stop()
		waiters.Wait()
		if served.Load() != 14 {
			t.Errorf("%d items were handed out, expected 14", served.Load())
		}
	})
}

// An item that arrives while a pop checks that the queue is empty wakes it.
func TestPopWaitMissesNothing(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		f.configure("q", "{}")
		looks := 0
		f.hook = func(at fault.Point) {
			if at != fault.BeforeCommit {
				return
			}
			if looks++; looks == 1 {
				other.pushed("q", 0, "one")
			}
		}
		popped, err := f.Wait(t.Context(), "q", oneItem, 0)
		if err != nil || len(popped.Items) != 1 {
			t.Fatalf("took %q, %v", payloads(popped.Items), err)
		}
		if looks < 2 {
			t.Errorf("the waiter looked %d times: the test proves nothing", looks)
		}
	})
}

// A waiter whose turn has not come gives up, too.
func TestPopWaitGivesUpInTheLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base, err := placeLocal(t)()
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		f := newFixture(t, base)
		first, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		wait := func(ctx context.Context) {
			_, err := f.Wait(ctx, "q", oneItem, 0)
			ended <- err
		}
		go wait(first)
		synctest.Wait()
		second, giveUp := context.WithTimeout(t.Context(), time.Second)
		defer giveUp()
		go wait(second)
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the second one ended with %v", err)
			}
		case <-time.After(time.Hour):
			t.Error("the second one waits beyond its context")
		}
		stop()
		<-ended
	})
}

// A waiting pop goes on when it has only removed items past their TTL.
func TestPopWaitPassesExpired(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushBehindExpired("q", "last")
		popped, err := f.Wait(t.Context(), "q", oneItem, 0)
		if err != nil || fmt.Sprint(payloads(popped.Items)) != "[last]" {
			t.Errorf("popped %q, %v", payloads(popped.Items), err)
		}
	})
}

// A waiting pop that ends leaves neither a watch nor a session.
func TestPopWaitLeavesNothing(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		seen := &watchedDB{DB: f.base}
		s, err := fdbpq.Open(t.Context(), seen, f.clock.options(0))
		if err != nil {
			t.Fatal(err)
		}
		pops, sessions := recipe.New(s), 0
		for i := range 3 {
			push(t, s, "q", "one")
			if _, err := pops.Wait(t.Context(), "q", oneItem, 0); err != nil {
				t.Fatal(err)
			}
			if n := len(f.rows("n")); i == 0 {
				sessions = n
			} else if n != sessions {
				t.Errorf("there are %d rows of sessions, %d after the first round", n, sessions)
			}
		}
		ctx, giveUp := context.WithCancel(t.Context())
		seen.found = giveUp
		if _, err := pops.Wait(ctx, "q", oneItem, 0); !errors.Is(err, context.Canceled) {
			t.Fatalf("a pop of nothing: %v", err)
		}
		select {
		case <-seen.last.Done():
		case <-time.After(time.Minute):
			t.Error("the watch goes on after the pop")
		}
	})
}

// watchedDB notes the watches of transactions.
type watchedDB struct {
	kv.DB
	last  *kv.Watch
	found func() // a watch was made
}

type watchedTx struct {
	kv.Tx
	db *watchedDB
}

func (db *watchedDB) Update(ctx context.Context, fn func(kv.Tx) error) error {
	before := db.last
	err := db.DB.Update(ctx, func(tx kv.Tx) error { return fn(&watchedTx{tx, db}) })
	if db.last != before && db.found != nil {
		db.found()
	}
	return err
}

func (tx *watchedTx) Watch(key []byte) *kv.Watch {
	tx.db.last = tx.Tx.Watch(key)
	return tx.db.last
}
