package fdbpq_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/recipe"
)

var flagTimers = flag.Int("pq.timers", 0, "items that fall due in each second of TestPunctualUnderLoad; 0: none")

// TestPunctualUnderLoad measures how late items expire and delayed ones are delivered
// when -pq.timers of them fall due in every second, two processes maintain the store, and
// others push and pop as fast as they can. None may be early, and none later than a
// second.
func TestPunctualUnderLoad(t *testing.T) {
	t.Parallel()
	if *flagTimers == 0 {
		t.Skip("no -pq.timers")
	}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		base := open()
		defer base.Close()
		p := punctuality{due: make(map[fdbpq.ID][2]time.Time)}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var running sync.WaitGroup
		var stores []*fdbpq.Store
		for range 2 {
			s, err := fdbpq.Open(t.Context(), base, fdbpq.Options{})
			if err != nil {
				t.Fatal(err)
			}
			stores = append(stores, s)
			running.Go(func() {
				s.Maintain(ctx, fdbpq.Maintenance{
					Event:   func(e fdbpq.Event) { p.note(e.ID) },
					Problem: func(err error) { t.Error(err) },
				})
			})
		}
		const seconds = 10
		rng := rand.New(rand.NewPCG(1, 2))
		for range seconds * *flagTimers / 100 {
			p.push(t, stores[0], rng, seconds*time.Second)
		}
		running.Go(func() {
			for ctx.Err() == nil {
				popped, err := recipe.New(stores[1]).Wait(ctx, "delayed", fdbpq.Selection{Limit: 100}, 0)
				if err != nil {
					return
				}
				for _, item := range popped.Items {
					p.note(item.ID)
				}
			}
		})
		var pops atomic.Int64
		for n := range 4 {
			s := stores[n%2]
			running.Go(func() {
				for ctx.Err() == nil {
					push(t, s, "load", "one")
					if _, err := inSession(t.Context(), s, s.Queue("load").Pop); err != nil {
						t.Error(err)
					}
					pops.Add(1)
				}
			})
		}
		<-time.After(time.Until(p.last) + 3*time.Second)
		stop()
		running.Wait()
		p.tell(t, pops.Load())
	})
}

// punctuality is when items fell due, and what came of it.
type punctuality struct {
	mu    sync.Mutex
	due   map[fdbpq.ID][2]time.Time // at the earliest, at the latest
	last  time.Time
	early int
	late  []time.Duration
}

// push adds items of which half are delayed and half expire, at some time in
// the span that begins five seconds later.
func (p *punctuality) push(t *testing.T, s *fdbpq.Store, rng *rand.Rand, span time.Duration) {
	p.mu.Lock() // until it is known when they are due
	defer p.mu.Unlock()
	for _, queue := range []string{"delayed", "mortal"} {
		items := make([]fdbpq.NewItem, 50)
		for i := range items {
			d := 5*time.Second + time.Duration(rng.Int64N(int64(span)))
			if queue == "delayed" {
				items[i].Delay = d
			} else {
				items[i].TTL = d
			}
		}
		var pushed []fdbpq.Pushed
		before := time.Now()
		update(t, s, func(tx kv.Tx) (err error) {
			pushed, err = s.Queue(queue).Push(tx, items...)
			return err
		})
		after := time.Now()
		for i, item := range pushed {
			d := items[i].Delay + items[i].TTL
			p.due[item.ID] = [2]time.Time{before.Add(d), after.Add(d)}
			if due := after.Add(d); due.After(p.last) {
				p.last = due
			}
		}
	}
}

func (p *punctuality) note(id fdbpq.ID) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	due := p.due[id]
	if now.Before(due[0]) {
		p.early++
	}
	p.late = append(p.late, now.Sub(due[1]))
}

func (p *punctuality) tell(t *testing.T, pops int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.late) != len(p.due) || p.early > 0 {
		t.Fatalf("of %d items %d fell due, %d of them early", len(p.due), len(p.late), p.early)
	}
	slices.Sort(p.late)
	t.Logf("%d items were late by %v (median), %v (one in a hundred), %v (most); %d pushes and pops meanwhile", len(p.late),
		p.late[len(p.late)/2].Round(time.Millisecond), p.late[len(p.late)*99/100].Round(time.Millisecond),
		p.late[len(p.late)-1].Round(time.Millisecond), pops)
	if most := p.late[len(p.late)-1]; most > time.Second {
		t.Errorf("late by %v, allowed is a second", most)
	}
}
