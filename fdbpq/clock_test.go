package fdbpq_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// A process whose wall clock is ten minutes off, ahead or behind, neither ends a lease
// early nor extends it, whichever process granted it and whichever sweeps.
func TestLeaseUnderWrongClocks(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		t.Run(skew.String(), func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				right := openFixture(t, open)
				together(5*time.Second, right)
				wrong := right.another(skew)
				together(5*time.Second, right, wrong)
				right.pushed("q", 0, "one", "two")
				for i, holder := range []*fixture{right, wrong} {
					item := holder.leaseOne("q", 30*time.Second)
					together(29*time.Second, right, wrong)
					for _, p := range []*fixture{right, wrong} {
						if events := p.sweep(); len(events) > 0 {
							t.Fatalf("holder %d: the lease ended a second too early: %v", i, events)
						}
					}
					together(4*time.Second, right, wrong) // two of them for the other's turn to sweep
					if events := append(right.sweep(), wrong.sweep()...); len(events) != 1 || events[0].Type != fdbpq.EventLeaseLost {
						t.Fatalf("holder %d: the lease did not end in time: %v", i, events)
					}
					if err := holder.nack(*item.Lease, 0); err == nil {
						t.Errorf("holder %d: the lease can still be given back", i)
					}
					right.pop("q", fdbpq.Min, 1)
				}
			})
		})
	}
}

// Store time passes as real time does, whatever wall clocks show, when
// processes come and go, and when a wall clock jumps.
func TestStoreTimePassesSteadily(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		first := openFixture(t, open)
		together(5*time.Second, first)
		start, began := first.now(), time.Duration(first.clock.elapsed.Load())
		processes := []*fixture{first}
		check := func() {
			t.Helper()
			passed := time.Duration(first.clock.elapsed.Load()) - began
			for i, p := range processes {
				if off := time.Duration(p.now()-start) - passed; off < -time.Second || off > time.Second {
					t.Fatalf("process %d: store time is off by %v after %v", i, off, passed)
				}
			}
		}
		for _, skew := range []time.Duration{10 * time.Minute, -10 * time.Minute, 0, 24 * time.Hour} {
			processes = append(processes, first.another(skew))
			for range 30 {
				together(time.Second, processes...)
				check()
			}
		}
		processes = processes[2:] // one that was wrong from the start goes on
		for range 30 {
			together(time.Second, processes...)
			check()
		}
		late := processes[0].another(-time.Hour)
		for range 90 { // a process that missed heartbeats moves nothing back
			together(time.Second, processes...)
		}
		processes = append(processes, late)
		together(10*time.Second, processes...)
		check()
	})
}

// While no process ran, time passed by the wall clock: what fell due meanwhile
// is due now. A wall clock that is behind moves nothing back.
func TestStoreTimeAfterPause(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		before := openFixture(t, open)
		together(5*time.Second, before)
		before.pushed("q", 0, "one")
		before.leaseOne("q", time.Hour)
		stopped := before.now()
		before.clock.advance(59*time.Minute - 3*time.Second)
		after := before.next(0) // which watches for three seconds
		together(5*time.Second, after)
		if events := after.sweep(); len(events) > 0 {
			t.Fatalf("the lease ended early: %v", events)
		}
		passed := time.Duration(after.now() - stopped)
		if want := 59*time.Minute + 5*time.Second; passed < want-time.Second || passed > want+time.Second {
			t.Errorf("%v of store time passed in %v", passed, want)
		}
		together(56*time.Second, after)
		if events := after.sweep(); len(events) != 1 {
			t.Errorf("the lease did not end: %v", events)
		}

		stopped = after.now()
		behind := before.next(-24 * time.Hour)
		for range 10 {
			together(time.Second, behind)
			now := behind.now()
			if now < stopped {
				t.Fatalf("store time went back by %v", time.Duration(stopped-now))
			}
			stopped = now
		}
	})
}

// A process that has just started moves store time only by the time that has passed for
// it.
func TestStoreTimeOfNewProcess(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		old := openFixture(t, open)
		together(5*time.Second, old)
		ahead := old.another(10 * time.Minute)
		start := old.now()
		for range 20 { // they beat in turn, so the new one sees the old one move
			together(time.Second, ahead, old)
		}
		if passed := time.Duration(ahead.now() - start); passed > 21*time.Second {
			t.Errorf("%v of store time passed in 20s", passed)
		}

		// The old one is slow now, but not gone.
		ahead = old.another(10 * time.Minute)
		start = old.now()
		for range 10 {
			together(time.Second, ahead)
			together(time.Second, ahead, old)
		}
		if passed := time.Duration(ahead.now() - start); passed > 21*time.Second {
			t.Errorf("%v of store time passed in 20s, while one process beat every other second", passed)
		}
	})
}

// A beat whose result is unknown, or that commits late, harms nothing.
func TestBeatWithUnknownResult(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		together(5*time.Second, f)
		start := f.now()
		for _, kind := range []fault.Kind{fault.UnknownNever, fault.UnknownDone, fault.UnknownLate} {
			f.db.FailNext(kind)
			together(2*time.Second, f)
			f.db.Release()
			together(time.Second, f)
		}
		if passed := time.Duration(f.now() - start); passed != 9*time.Second {
			t.Errorf("%v of store time passed in 9s", passed)
		}
		if other := f.another(0); other.now() != f.now() {
			t.Errorf("another process reads %d, expected %d", other.now(), f.now())
		}
	})
}

// PQ-Not-Before is the only due time by the pusher's wall clock.
func TestNotBeforeIsWallTime(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		ahead := f.another(10 * time.Minute)
		at := wallStart.Add(15 * time.Minute)
		f.push("q", fdbpq.NewItem{Payload: []byte("in 15 minutes"), NotBefore: at})
		ahead.push("q", fdbpq.NewItem{Payload: []byte("in 5 minutes"), NotBefore: at})
		together(5*time.Minute, f, ahead)
		f.sweep()
		if got := payloads(f.pop("q", fdbpq.Min, 2).Items); len(got) != 1 || got[0] != "in 5 minutes" {
			t.Errorf("after 5 minutes there is %q", got)
		}
		together(10*time.Minute-time.Second, f, ahead)
		f.sweep()
		if popped := f.pop("q", fdbpq.Min, 2); len(popped.Items) != 0 || popped.Reason != fdbpq.ReasonDelayed {
			t.Errorf("a second too early there is %q (%s)", payloads(popped.Items), popped.Reason)
		}
		together(time.Second, f, ahead)
		f.sweep()
		if got := payloads(f.pop("q", fdbpq.Min, 2).Items); len(got) != 1 {
			t.Errorf("after 15 minutes there is %q", got)
		}
	})
}

// One process sweeps at a time. When it dies, another one takes over.
func TestSweeperTerm(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		a := openFixture(t, open)
		f := a.another(0)
		delayed := func() {
			t.Helper()
			a.push("q", fdbpq.NewItem{Delay: time.Second})
			together(time.Second, a, f)
		}
		delayed()
		if swept, err := a.Sweep(t.Context()); err != nil || swept.Timers != 1 || swept.Busy {
			t.Fatalf("first sweep: %+v, %v", swept, err)
		}
		delayed()
		swept, err := f.Sweep(t.Context())
		if err != nil || !swept.Busy || swept.Timers != 0 || swept.Next <= 0 || swept.Next > 2*time.Second {
			t.Fatalf("sweep of another process: %+v, %v: expected to be told who works", swept, err)
		}
		together(swept.Next, a, f) // and a is dead
		if swept, err := f.Sweep(t.Context()); err != nil || swept.Timers != 1 {
			t.Fatalf("sweep after the first process died: %+v, %v", swept, err)
		}
	})
}

// A sweep does a bounded amount of work and reports that there is more.
func TestSweepIsBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		const items = 600
		news := make([]fdbpq.NewItem, items)
		for i := range news {
			news[i].Delay = time.Second
		}
		f.push("q", news...)
		f.push("q", fdbpq.NewItem{Delay: time.Minute})
		f.pass(time.Second)
		var done []int
		for {
			swept, err := f.Sweep(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			done = append(done, swept.Timers)
			if swept.Next != 1 {
				if swept.Next != 59*time.Second {
					t.Errorf("the next sweep is in %v, expected 59s", swept.Next)
				}
				break
			}
		}
		if len(done) != 3 || f.counts("q").Ready != items {
			t.Errorf("%d items became ready in sweeps of %v", f.counts("q").Ready, done)
		}
	})
}

// A time is displayed the same each time, although the two clocks behind it cannot be
// read at one instant, and a busy machine may keep them minutes apart. A wall clock that
// is set has its effect.
func TestDisplay(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		clock, db := newTestClock(), open()
		defer func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}()
		options, jitter, set := clock.options(0), time.Duration(0), time.Duration(0)
		still := time.Duration(0) // before and after the wall clock is read
		exact := options.Wall
		options.Wall = func() time.Time {
			clock.advance(still)
			defer clock.advance(still)
			jitter = 300*time.Microsecond - jitter
			return exact().Add(jitter + set)
		}
		s, err := fdbpq.Open(t.Context(), db, options)
		if err != nil {
			t.Fatal(err)
		}
		first := s.Display(0)
		for range 5 {
			still += time.Minute
			if again := s.Display(0); !again.Equal(first) {
				t.Errorf("%s, displayed again %s", first, again)
			}
		}
		still = 0
		for range 2 {
			set += time.Hour
			changed := s.Display(0)
			if later := changed.Sub(first); later < set-time.Millisecond || later > set+time.Millisecond {
				t.Errorf("%s later when the clock was set by %s", later, set)
			}
			for range 3 {
				if again := s.Display(0); !again.Equal(changed) {
					t.Errorf("after the clock was set %s, displayed again %s", changed, again)
				}
			}
		}
	})
}

// A process whose clock stood still, because its machine slept, uses the store time of
// the others, and does not move it back.
func TestStoreTimeOfOthers(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		awake := openFixture(t, open)
		asleep := &fixture{TB: t, base: awake.base, clock: newTestClock()}
		asleep.join(asleep.clock.options(0))
		together(10*time.Second, asleep)
		together(10*time.Second, awake)
		awake.pushed("q", 0, "one")
		together(time.Hour, awake)
		item := asleep.leaseOne("q", time.Minute)
		if left := time.Duration(awake.get("q", item.ID).Due - awake.now()); left != time.Minute {
			t.Errorf("the lease that it gives for a minute lasts %v", left)
		}

		// Both beat at the same time.
		runs := 0
		asleep.hook = func(at fault.Point) {
			if runs++; at == fault.BeforeCommit {
				asleep.hook = nil
				together(time.Hour, awake)
			}
		}
		before := awake.now()
		if err := asleep.heartbeat.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		if passed := time.Duration(awake.another(0).now() - before); passed < time.Hour || passed > time.Hour+time.Second {
			t.Errorf("%v of store time passed in an hour", passed)
		}
	})
}
