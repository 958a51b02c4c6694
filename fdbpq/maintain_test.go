package fdbpq_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fault"
)

// Due work is done within a second by one of the processes, also when the sweeping one
// dies.
func TestMaintainIsPunctual(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base, err := placeLocal(t)()
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		rng := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		happened := make(map[string]time.Time) // by id and type
		note := func(e fdbpq.Event) {
			mu.Lock()
			defer mu.Unlock()
			happened[fmt.Sprint(e.ID, e.Type)] = time.Now()
		}
		var running sync.WaitGroup
		var stops []context.CancelFunc
		var crashes []func()
		var stores []*fdbpq.Store
		for range 3 {
			db := fault.Wrap(base, fault.Options{})
			s, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			running.Go(func() { s.Maintain(ctx, fdbpq.Maintenance{Event: note}) })
			stores, stops, crashes = append(stores, s), append(stops, stop), append(crashes, db.Crash)
		}
		s := stores[2]
		expected := make(map[string]time.Time)
		ready := make(map[string]time.Time) // when delayed items must be there, by payload
		var lock sync.Mutex
		arrived := make(map[string]time.Time)
		ctx, stop := context.WithCancel(t.Context())
		for range 4 {
			running.Go(func() {
				for ctx.Err() == nil {
					popped, err := s.PopWait(ctx, "delayed", fdbpq.Selection{Limit: 1}, 0)
					if err != nil {
						return
					}
					lock.Lock()
					arrived[string(popped.Items[0].Payload)] = time.Now()
					lock.Unlock()
				}
			})
		}
		for n := range 300 {
			<-time.After(time.Duration(rng.Int64N(int64(100 * time.Millisecond))))
			if n == 150 {
				stops[0]()
				crashes[0]()
			}
			d := time.Duration(1 + rng.Int64N(int64(5*time.Second)))
			update(t, s, func(tx kv.Tx) error {
				switch n % 3 {
				case 0:
					payload := fmt.Sprint(n)
					ready[payload] = time.Now().Add(d)
					_, err := s.Queue("delayed").Push(tx, fdbpq.NewItem{Payload: []byte(payload), Delay: d})
					return err
				case 1:
					pushed, err := s.Queue("mortal").Push(tx, fdbpq.NewItem{TTL: d})
					if err != nil {
						return err
					}
					expected[fmt.Sprint(pushed[0].ID, fdbpq.EventExpired)] = time.Now().Add(d)
				case 2:
					if _, err := s.Queue("leased").Push(tx, fdbpq.NewItem{Priority: int64(n), HasPriority: true}); err != nil {
						return err
					}
					popped, err := s.Queue("leased").Lease(tx, fdbpq.Selection{End: fdbpq.Max, Limit: 1}, d)
					if err != nil {
						return err
					}
					expected[fmt.Sprint(popped.Items[0].ID, fdbpq.EventLeaseLost)] = popped.Items[0].Lease.Expires
				}
				return nil
			})
		}
		<-time.After(10 * time.Second)
		stop()
		for _, stop := range stops {
			stop()
		}
		running.Wait()
		var late []time.Duration
		check := func(what string, due, done time.Time) {
			if done.IsZero() {
				t.Errorf("%s never happened", what)
				return
			}
			if done.Before(due) {
				t.Errorf("%s happened %v too early", what, due.Sub(done))
			}
			late = append(late, done.Sub(due))
		}
		for what, due := range expected {
			check(what, due, happened[what])
		}
		for what, due := range ready {
			check("delayed item "+what, due, arrived[what])
		}
		slices.Sort(late)
		t.Logf("late by %v at the median, %v at most", late[len(late)/2], late[len(late)-1])
		// When a process dies, the next one waits for two more seconds.
		if late[len(late)*9/10] > time.Second || late[len(late)-1] > 4*time.Second {
			t.Errorf("late by %v in one of ten cases, %v at most", late[len(late)*9/10], late[len(late)-1])
		}
	})
}

// A process does due work of its own timers in time, and not only at its next heartbeat.
func TestMaintainHearsOfTimers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base, err := placeLocal(t)()
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		s, err := fdbpq.Open(t.Context(), base, fdbpq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { s.Maintain(ctx, fdbpq.Maintenance{}) })
		for range 10 {
			<-time.After(1234 * time.Millisecond)
			start := time.Now()
			update(t, s, func(tx kv.Tx) error {
				_, err := s.Queue("q").Push(tx, fdbpq.NewItem{Delay: 50 * time.Millisecond})
				return err
			})
			if _, err := s.PopWait(t.Context(), "q", oneItem, 0); err != nil {
				t.Fatal(err)
			}
			if late := time.Since(start) - 50*time.Millisecond; late < 0 || late > 10*time.Millisecond {
				t.Errorf("it came %v late", late)
			}
		}
		stop()
		running.Wait()
	})
}
