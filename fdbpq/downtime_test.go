package fdbpq_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// Leases and delays granted after downtime have their full length from the first moment.
// The downtime counts for earlier ones.
func TestGrantsAfterDowntime(t *testing.T) {
	const down = 45 * time.Second
	for name, exclusive := range map[string]bool{"exclusive": true, "shared": false} {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				before := openFixture(t, open)
				before.pass(time.Second)
				before.pushed("old", 0, "held", "lost")
				before.leaseOne("old", time.Hour)
				before.leaseOne("old", 40*time.Second)
				before.push("old", fdbpq.NewItem{MsgID: "old"})
				before.clock.advance(down)

				options := before.clock.options(0)
				options.Exclusive = exclusive
				f := before.opened(options)
				start := f.now()
				f.push("q", fdbpq.NewItem{Payload: []byte("mortal"), TTL: 40 * time.Second})
				f.push("q", fdbpq.NewItem{Payload: []byte("later"), Delay: 40 * time.Second})
				f.configure("q", `{"dedup_window":"40s"}`)
				f.push("q", fdbpq.NewItem{Payload: []byte("once"), MsgID: "id", Priority: 9, HasPriority: true})
				f.pushed("leased", 0, "one")
				item := f.leaseOne("leased", 40*time.Second)

				for range 39 {
					f.pass(time.Second)
				}
				f.sweep()
				if n := f.counts("q"); n.Ready != 2 || n.Delayed != 1 {
					t.Errorf("a second before the end %+v are left, expected 2 ready and 1 delayed", n)
				}
				if again := f.push("q", fdbpq.NewItem{MsgID: "id"})[0]; !again.Duplicate {
					t.Error("a second before the end the message id is forgotten")
				}
				if n := f.counts("old"); n.Ready != 2 || n.Leased != 1 {
					t.Errorf("of what was leased before the downtime there is %+v, expected that the short lease is over", n)
				}
				if err := f.nack(*item.Lease, 0); err != nil {
					t.Errorf("a second before the end: %v", err)
				}
				f.pass(time.Second)
				f.sweep()
				if n := f.counts("q"); n.Ready != 2 || n.Delayed != 0 {
					t.Errorf("at the end %+v are left, expected what was delayed to be ready, and what was mortal to be gone", n)
				}
				if passed := time.Duration(f.now() - start); passed != 40*time.Second {
					t.Errorf("%v of store time passed in 40s", passed)
				}
			})
		})
	}
}

// A process that takes over, and knows how long the store was left alone, adds that and
// asks no wall clock. Another process that follows keeps the time.
func TestKnownDowntime(t *testing.T) {
	for name, skew := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				before := openFixture(t, open)
				before.pass(time.Second)
				stopped := before.now()
				const down = 4 * time.Second
				before.clock.advance(down)
				options := before.clock.options(skew)
				options.Exclusive = true
				known := down
				options.Downtime = &known
				f := before.opened(options)
				if passed := time.Duration(f.now() - stopped); passed != down {
					t.Errorf("%v of store time passed, expected %v", passed, down)
				}
				f.pass(time.Second)
				if passed := time.Duration(f.now() - stopped); passed != down+time.Second {
					t.Errorf("%v of store time passed after another second, expected %v", passed, down+time.Second)
				}
			})
		})
	}
}

// Nobody knows how long the store was left alone: the gap is that between the wall clock of the
// process that wrote last and that of the one that starts, as far as it is positive. A clock
// that is an hour ahead ends TTLs, one that is an hour behind adds nothing.
func TestUnknownDowntime(t *testing.T) {
	const down = time.Minute
	for name, c := range map[string]struct{ skew, passes time.Duration }{
		"right": {0, down}, "ahead": {5 * time.Minute, 6 * time.Minute}, "far ahead": {time.Hour, time.Hour + down}, "behind": {-30 * time.Second, 30 * time.Second}, "far behind": {-time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				before := openFixture(t, open)
				before.pass(time.Second)
				before.push("q", fdbpq.NewItem{Payload: []byte("mortal"), TTL: 10 * time.Minute})
				stopped := before.now()
				before.clock.advance(down)
				options := before.clock.options(c.skew)
				options.Exclusive = true
				f := before.opened(options)
				if passed := time.Duration(f.now() - stopped); passed != c.passes {
					t.Errorf("%v of store time passed, expected %v", passed, c.passes)
				}
				for range 5 {
					f.pass(time.Second)
				}
				f.sweep()
				left := int64(1)
				if c.passes > 10*time.Minute {
					left = 0
				}
				if n := f.counts("q"); n.Ready != left {
					t.Errorf("%d items are left, expected %d", n.Ready, left)
				}
			})
		})
	}
}

// Of several processes that start at the same time after downtime, one determines its
// length, whatever their wall clocks show, and all grant leases by that time: also when
// one is done while another one still watches, or is about to write.
func TestSeveralResume(t *testing.T) {
	for _, when := range []string{"while it watches", "as it writes"} {
		t.Run(when, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				before := openFixture(t, open)
				before.pass(time.Second)
				stopped := before.now()
				before.clock.advance(time.Minute)
				const looks = 6
				var inner *fixture
				options := before.clock.options(10 * time.Second)
				steps := 0
				options.Wait = func(_ context.Context, d time.Duration) error {
					if steps++; steps == looks && when == "while it watches" {
						inner = before.next(0)
						return nil
					}
					before.clock.advance(d)
					return nil
				}
				outer := &fixture{TB: t, base: before.base, clock: before.clock}
				outer.hook = func(at fault.Point) {
					if steps == looks && at == fault.BeforeCommit && inner == nil {
						inner = before.next(0)
					}
				}
				outer.join(options)
				if inner == nil {
					t.Fatalf("the process looked %d times whether others run, expected %d", steps, looks)
				}
				if a, b := inner.Time(), outer.Time(); a != b {
					t.Errorf("the processes begin with store times %v apart", b-a)
				}
				if a, b := inner.now(), outer.now(); a != b {
					t.Errorf("store times are %v apart", time.Duration(b-a))
				}
				passed, real := time.Duration(outer.now()-stopped), time.Duration(before.clock.elapsed.Load())-time.Second
				if passed != real {
					t.Errorf("%v of store time passed, expected %v", passed, real)
				}
			})
		})
	}
}

// A process that is to add the downtime does so once if it does not learn whether its
// commit has taken effect.
func TestResumeWithUnknownResult(t *testing.T) {
	for _, kind := range []fault.Kind{fault.UnknownDone, fault.UnknownNever} {
		t.Run(kind.String(), func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				before := openFixture(t, open)
				before.pass(time.Second)
				stopped := before.now()
				before.clock.advance(time.Minute)
				f := &fixture{TB: t, base: before.base, clock: before.clock}
				options := before.clock.options(0)
				scripted := false
				options.Wait = func(_ context.Context, d time.Duration) error {
					if !scripted {
						f.db.FailNext(kind)
						scripted = true
					}
					before.clock.advance(d)
					return nil
				}
				f.join(options)
				passed, real := time.Duration(f.now()-stopped), time.Duration(before.clock.elapsed.Load())-time.Second
				if !scripted || passed != real {
					t.Errorf("%v of store time passed, expected %v; scripted %v", passed, real, scripted)
				}
			})
		})
	}
}

// A wall clock that is set back while a process watches a shared store leaves store time
// as it is.
func TestClockSetBackWhileWatching(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		before := openFixture(t, open)
		before.pass(time.Second)
		stopped := before.now()
		before.clock.advance(time.Minute)
		options := before.clock.options(0)
		wall, back, began := options.Wall, time.Duration(0), before.clock.elapsed.Load()
		options.Wall = func() time.Time { return wall().Add(-back) }
		options.Wait = func(_ context.Context, d time.Duration) error {
			back = 1000 * time.Hour
			before.clock.advance(d)
			return nil
		}
		f := before.opened(options)
		f.pass(time.Second)
		watched := time.Duration(before.clock.elapsed.Load() - began)
		if passed := time.Duration(f.now() - stopped); passed < 0 || passed > watched {
			t.Errorf("%v of store time passed, expected at most the %v since the start", passed, watched)
		}
		fresh := newTestClock().options(-1000 * time.Hour) // of a machine that has just started
		if next := f.opened(fresh); next.now() < f.now() {
			t.Errorf("the next process begins %v earlier", time.Duration(f.now()-next.now()))
		}
	})
}

// A process that starts beside others, or right after the last one, does not
// watch, and adds nothing.
func TestOpenAfterShortPause(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		before := openFixture(t, open)
		before.pass(time.Second)
		stopped := before.now()
		before.clock.advance(2 * time.Second)
		options := before.clock.options(0)
		options.Wait = func(_ context.Context, d time.Duration) error {
			t.Errorf("it waits for %v", d)
			return nil
		}
		if now := before.opened(options).now(); now != stopped {
			t.Errorf("store time was moved by %v", time.Duration(now-stopped))
		}
	})
}

// Timers that fell due while no process ran wait for three seconds, so that a consumer
// that reconnects can still acknowledge.
func TestGraceAfterDowntime(t *testing.T) {
	known := 50 * time.Second
	for name, options := range map[string]fdbpq.Options{
		"exclusive":                      {Exclusive: true},
		"exclusive, with a clock behind": {Exclusive: true, Wall: func() time.Time { return time.Unix(1, 0) }},
		"shared":                         {},
		"known":                          {Exclusive: true, Downtime: &known},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base, err := placeLocal(t)()
				if err != nil {
					t.Fatal(err)
				}
				defer base.Close()
				first, err := fdbpq.Open(t.Context(), base, fdbpq.Options{Exclusive: options.Exclusive})
				if err != nil {
					t.Fatal(err)
				}
				push(t, first, "q", "done meanwhile")
				push(t, first, "q", "not done")
				var leases []fdbpq.Lease
				for range 2 {
					popped, err := inSession(t.Context(), first, func(tx kv.Tx, sel fdbpq.Selection) (fdbpq.Popped, error) {
						return first.Queue("q").Lease(tx, sel, 30*time.Second)
					})
					if err != nil {
						t.Fatal(err)
					}
					leases = append(leases, *popped.Items[0].Lease)
				}
				<-time.After(time.Minute)
				if options.Wall != nil { // it cannot tell how long the downtime was: the leases are over before
					if err := fdbpq.NewHeartbeat(first).Beat(t.Context()); err != nil {
						t.Fatal(err)
					}
				}

				s, err := fdbpq.Open(t.Context(), base, options)
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				ended := make(chan time.Duration, 2)
				running.Go(func() {
					s.Maintain(ctx, fdbpq.Maintenance{Event: func(fdbpq.Event) { ended <- time.Since(start) }})
				})
				<-time.After(2 * time.Second)
				update(t, s, func(tx kv.Tx) error {
					_, err := s.Queue("q").Ack(tx, leases[0])
					return err
				})
				if after := <-ended; after < 3*time.Second || after > 4*time.Second {
					t.Errorf("the lease that ran out ended %v after the start, expected 3s", after)
				}
				stop()
				running.Wait()
				if len(ended) > 0 {
					t.Error("what was acknowledged ended as well")
				}
			})
		})
	}
}
