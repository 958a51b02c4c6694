package fdbpq_test

import (
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// The clock of a process is a day ahead, for 30 seconds and for 90.
func TestScheduleClockAhead(t *testing.T) {
	for _, test := range []struct {
		ahead time.Duration
		fires []string
	}{
		{30 * time.Second, []string{"1m0s"}},
		{90 * time.Second, []string{"24h1m0s"}}, // the last of the times within an hour
	} {
		t.Run(test.ahead.String(), func(t *testing.T) {
			eachSchedule(t, func(f *fixture) {
				var step time.Duration
				f.steps(&step)
				f.schedule("q", "s", `{"spec":"@every 1m"`+allow+`}`)
				f.pass(30 * time.Second)
				f.expectFired("q")
				step = 24 * time.Hour
				fired := []string{}
				for range test.ahead / time.Second {
					f.pass(time.Second)
					f.fire()
					fired = append(fired, f.drained("q")...)
				}
				if step = 0; test.ahead < time.Minute {
					f.pass(time.Second)
					f.fire()
					fired = append(fired, f.drained("q")...)
				}
				if !slices.Equal(fired[:min(1, len(fired))], test.fires) {
					t.Errorf("fired %v, expected %v", fired, test.fires)
				}
			})
		})
	}
}

// The minute for which a clock has to differ begins anew when the clock has been right meanwhile.
func TestScheduleClockAheadAgain(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		var step time.Duration
		f.steps(&step)
		f.schedule("q", "s", `{"spec":"@every 10m"`+allow+`}`)
		f.expectFired("q")
		for range 3 { // half a minute each
			step = 24 * time.Hour
			for range 30 {
				f.pass(time.Second)
				f.expectFired("q")
			}
			step = 0
			for range 30 {
				f.pass(time.Second)
				f.expectFired("q")
			}
		}
		step = 24 * time.Hour
		for range 60 {
			f.pass(time.Second)
			f.expectFired("q")
		}
		f.pass(time.Second)
		f.expectFired("q", "24h0m0s")
	})
}

// steps opens the store with a wall clock that is wrong by a step.
func (f *fixture) steps(step *time.Duration) {
	f.Helper()
	options := f.clock.options(0)
	right := options.Wall
	options.Wall = func() time.Time { return right().Add(*step) }
	f.join(options)
}

// A machine sleeps for a week: store time stands still, and the wall clock does not.
func TestScheduleSuspended(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		var step time.Duration
		f.steps(&step)
		f.schedule("q", "s", `{"spec":"@every 1h","catch_up":"2h30m","missed":"all"`+allow+`}`)
		f.expectFired("q")
		step = 7 * 24 * time.Hour
		for range 59 {
			f.pass(time.Second)
			f.expectFired("q")
		}
		f.pass(2 * time.Second)
		f.expectFired("q", "166h0m0s", "167h0m0s", "168h0m0s")
		if s := f.scheduled("q", "s"); s.Missed != 165 {
			t.Errorf("%d misses, expected 165", s.Missed)
		}
	})
}

// A clock that is set back fires nothing again. A schedule that lies ahead begins anew when it
// is told to.
func TestScheduleClockBack(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		var step time.Duration
		f.steps(&step)
		f.schedule("q", "s", `{"spec":"* * * * *","catch_up":"24h"`+allow+`}`)
		f.pass(10 * time.Minute)
		f.expectFired("q", "10m0s")
		step = -5 * time.Minute
		for range 350 {
			f.pass(time.Second)
			f.expectFired("q")
		}
		f.resume("q", "s", false)
		f.expectFired("q")
		if s := f.scheduled("q", "s"); s.Next.Unix() != 1_800_000_000+11*60 {
			t.Errorf("next is %s", s.Next)
		}
		step = -60 * time.Minute
		for range 61 {
			f.pass(time.Second)
			f.expectFired("q")
		}
		f.resume("q", "s", true)
		f.pass(time.Minute)
		f.expectFired("q", "-43m0s")
	})
}

// A process whose clock is wrong waits while another one fires, and after a restart of that
// one.
func TestScheduleWrongClockBeside(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		wrong := f.another(5 * time.Minute)
		f.schedule("q", "s", `{"spec":"@every 10s"`+allow+`}`)
		f.expectFired("q")
		for n := range 200 {
			if n%60 != 30 { // it is away for a moment
				f.pass(time.Second)
				f.fire()
			} else {
				for range 20 {
					f.clock.advance(time.Second)
					if err := wrong.heartbeat.Beat(t.Context()); err != nil {
						t.Fatal(err)
					}
					wrong.fire()
				}
			}
			wrong.fire()
		}
		if fired, err := wrong.schedules.Fire(t.Context(), nil, nil); err != nil || (fired.Offset+5*time.Minute).Abs() > 2*time.Second {
			t.Errorf("a process whose clock is five minutes ahead says that schedules are %s from it, %v", fired.Offset, err)
		}
		for _, at := range f.drained("q") {
			if d, err := time.ParseDuration(at); err != nil || d > time.Duration(f.clock.elapsed.Load()) {
				t.Fatalf("it fired at %s, which is not yet", at)
			}
		}
	})
}

// A process with older zones plans a schedule anew, and one with newer zones notices.
func TestScheduleOlderZones(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		older := f.another(0)
		older.Inside().Zones = "2001a"
		older.schedules = schedule.New(older.Store)
		f.schedule("q", "s", `{"spec":"0 12 * * *","zone":"Europe/Berlin"`+allow+`}`)
		f.fire()
		want := f.scheduled("q", "s").Next
		zones := func() string {
			rows := f.rows("zt")
			if len(rows) != 1 {
				t.Fatalf("%d rows", len(rows))
			}
			return string(rows[0].Value)
		}
		newest := zones()
		f.pass(3 * time.Second)
		older.fire()
		if zones() != newest {
			t.Errorf("a process with older zones, which plans nothing, says %s", zones())
		}
		older.schedule("q", "s", `{"jitter":"0s"}`)
		if zones() != "2001a" {
			t.Errorf("the zones are %s, although a schedule was planned with older ones", zones())
		}
		// What older zones would have said: an hour late.
		f.misplan("q", "s", want.Add(time.Hour))
		f.pass(3 * time.Second)
		f.fire()
		if next := f.scheduled("q", "s").Next; !next.Equal(want) || zones() != newest {
			t.Errorf("next is %s by %s, expected %s", next, zones(), want)
		}
	})
}

// misplan moves the next time of a schedule, as another version of the tz database would.
func (f *fixture) misplan(queue, name string, next time.Time) {
	f.Helper()
	progress, index := f.rows("ss"), f.rows("zs")
	if len(progress) != 1 || len(index) != 1 {
		f.Fatalf("%d schedules, %d index rows", len(progress), len(index))
	}
	fields, err := tuple.Unpack(progress[0].Value)
	if err != nil {
		f.Fatal(err)
	}
	fields[4], fields[5] = next.UnixNano(), next.UnixNano()
	value, err := fields.Pack()
	if err != nil {
		f.Fatal(err)
	}
	key, err := tuple.Unpack(index[0].Key)
	if err != nil {
		f.Fatal(err)
	}
	key[2] = next.UnixNano()
	moved, err := key.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.update(func(tx kv.Tx) error {
		tx.Set(progress[0].Key, value)
		tx.Clear(index[0].Key)
		tx.Set(moved, nil)
		return nil
	})
}

// A process that is stopped in the middle of a firing, beyond its term, fires nothing again.
func TestScheduleRunnerStopped(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		other := f.another(0)
		f.schedule("q", "s", `{"spec":"@every 10s"`+allow+`}`)
		f.fire()
		f.pass(10 * time.Second)
		stopped := false
		f.hook = func(at fault.Point) {
			if at != fault.BeforeCommit || stopped {
				return
			}
			stopped = true
			f.clock.advance(5 * time.Second)
			other.fire()
			if n := other.counts("q").Length(); n != 1 {
				t.Errorf("the other process pushed %d items", n)
			}
		}
		f.fire()
		if !stopped {
			t.Fatal("nothing was stopped")
		}
		f.hook = nil
		f.expectFired("q", "10s")
	})
}

// The next process fires and sweeps at once in a store that only one can have open. Where others may
// run, it waits for the end of the last one's terms.
func TestTermOfADeadProcess(t *testing.T) {
	for name, alone := range map[string]bool{"exclusive": true, "shared": false} {
		t.Run(name, func(t *testing.T) {
			eachSchedule(t, func(before *fixture) {
				before.schedule("q", "s", `{"spec":"@every 1s"`+allow+`}`)
				before.push("delayed", fdbpq.NewItem{Delay: 1500 * time.Millisecond}, fdbpq.NewItem{Delay: time.Second})
				before.pass(time.Second)
				before.fire()
				before.sweep()
				before.expectFired("q", "1s")
				before.pass(time.Second) // less than a term

				down := time.Duration(0)
				options := before.clock.options(0)
				options.Exclusive, options.Downtime = alone, &down
				f := before.opened(options)
				var fired []string // since
				swept := int64(1)
				if alone {
					fired, swept = []string{"2s"}, 2
				}
				f.fire()
				f.sweep()
				f.expectFired("q", fired...)
				if n := f.counts("delayed").Ready; n != swept {
					t.Errorf("%d delayed items are ready, expected %d", n, swept)
				}
			})
		})
	}
}
