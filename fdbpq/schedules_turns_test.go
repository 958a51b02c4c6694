package fdbpq_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

// at makes schedules of a queue that fire once each, n of them, with some time between two.
func (f *fixture) at(queue string, n int, first, gap time.Duration) {
	f.Helper()
	const together = 250
	for from := 0; from < n; from += together {
		f.update(func(tx kv.Tx) error {
			for i := from; i < min(n, from+together); i++ {
				spec := time.Unix(1_800_000_000, 0).UTC().Add(first + time.Duration(i)*gap).Format(time.RFC3339Nano)
				if _, err := timetable(f.Queue(queue)).Set(tx, f.Queue(queue), fmt.Sprint("s", i), []byte(`{"spec":"@at `+spec+`"}`), nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// A queue with many schedules keeps no other one's waiting, whether they fall due at one instant or one after the other, and
// however late the other's do.
func TestScheduleTurnsOfQueues(t *testing.T) {
	for name, gap := range map[string]time.Duration{"at one instant": 0, "one after the other": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			eachSchedule(t, func(f *fixture) {
				const many, others = 1200, 48
				f.at("many", many, 10*time.Second, gap)
				for i := range others {
					f.at(fmt.Sprint("other", i), 3, 12*time.Second, time.Second)
				}
				f.fire()
				f.pass(13 * time.Second)
				of := func(fired schedule.Fired) (of map[string]int) {
					of = make(map[string]int)
					for queue, n := range fired.Queues {
						of[strings.TrimRight(queue, "0123456789")] += int(n.Fired)
					}
					return of
				}
				first, err := f.schedules.Fire(f.Context(), nil, nil)
				if got := of(first); err != nil || got["other"] != 2*others || got["many"] == 0 {
					t.Errorf("the first transaction fired %v of the others, expected %d, and %d of the queue with many: %v", got["other"], 2*others, got["many"], err)
				}
				f.pass(time.Second)
				second, err := f.schedules.Fire(f.Context(), nil, nil)
				if got := of(second); err != nil || got["other"] != others || got["many"] == 0 {
					t.Errorf("the second transaction fired %v of the others, expected %d, and %d of the queue with many: %v", got["other"], others, got["many"], err)
				}
				f.fire()
				if n := f.counts("many").Length(); n != many {
					t.Errorf("%d have fired, expected %d", n, many)
				}
			})
		})
	}
}

// Owners take turns, however many queues they have.
func TestScheduleTurnsOfOwners(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		for i := range 40 {
			f.at(fmt.Sprint("X.", i), 10, time.Second, 0)
		}
		f.at("Y.jobs", 100, 2*time.Second, 0)
		f.pass(2 * time.Second)
		if _, err := f.schedules.Fire(f.Context(), nil, func(queue string) string { return queue[:1] }); err != nil {
			t.Fatal(err)
		}
		if n := f.counts("Y.jobs").Length(); n != 100 {
			t.Errorf("the first transaction fired %d of 100 of an owner that has one queue of 41", n)
		}
	})
}

// A schedule that catches up does not fire all of its times while others wait.
func TestScheduleTurnsWhileCatchingUp(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		const queues = 12
		for i := range queues {
			f.schedule(fmt.Sprint("late", i), "s", `{"spec":"@every 1s","missed":"all"`+allow+`}`)
		}
		f.pass(100 * time.Second)
		for n := range 2 { // 256 items each
			if fired, err := f.schedules.Fire(f.Context(), nil, nil); err != nil || len(fired.Queues) < 10 {
				t.Errorf("transaction %d fired of %d queues: %v", n, len(fired.Queues), err)
			}
		}
		f.fire()
		for i := range queues {
			if s := f.scheduled(fmt.Sprint("late", i), "s"); s.Fired != 100 || s.Missed != 0 {
				t.Errorf("schedule %d is %+v", i, s)
			}
		}
	})
}

// Whatever waits, was passed over or not read in time: it fires, once.
func TestScheduleTurnsBounds(t *testing.T) {
	for _, bounds := range [][4]int{{4, 1000, 1000, 10}, {1000, 20, 1000, 3}, {50, 1000, 7, 2}, {1, 1, 1, 1}} {
		t.Run(fmt.Sprint(bounds), func(t *testing.T) {
			eachSchedule(t, func(f *fixture) {
				f.Inside().Late = &bounds
				f.schedules = schedule.New(f.Store)
				want := map[string]int{"same": 100, "apart": 40, "a": 5, "b": 1}
				f.at("same", want["same"], 10*time.Second, 0)
				f.at("apart", want["apart"], 11*time.Second, 7*time.Millisecond)
				f.at("a", want["a"], 10*time.Second, time.Second)
				f.at("b", want["b"], 13*time.Second, 0)
				f.pass(20 * time.Second)
				for atOnce := true; atOnce; {
					fired, err := f.schedules.Fire(f.Context(), nil, nil)
					if err != nil {
						t.Fatal(err)
					}
					atOnce = fired.Next == 1
				}
				for queue, n := range want {
					for i := range n {
						if s := f.scheduled(queue, fmt.Sprint("s", i)); s.Fired != 1 || s.Missed != 0 {
							t.Errorf("schedule %d of %s is %+v", i, queue, s)
						}
					}
					if got := int(f.counts(queue).Length()); got != n {
						t.Errorf("queue %s has %d items, expected %d", queue, got, n)
					}
				}
			})
		})
	}
}

// A schedule that was being made while a burst was read has its turn in the burst, though its time lies before what was read.
func TestScheduleMadeDuringBurst(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		for i := range 48 {
			f.at(fmt.Sprint("many", i), 25, 12*time.Second, 0)
		}
		made := false
		f.update(func(tx kv.Tx) error {
			spec := time.Unix(1_800_000_000, 0).UTC().Add(11 * time.Second).Format(time.RFC3339)
			_, err := timetable(f.Queue("other")).Set(tx, f.Queue("other"), "s", []byte(`{"spec":"@at `+spec+`"}`), nil)
			if !made {
				made = true
				f.pass(12 * time.Second)
				if fired, err := f.schedules.Fire(f.Context(), nil, nil); err != nil || len(fired.Queues) != 48 {
					t.Errorf("fired of %d queues: %v", len(fired.Queues), err)
				}
			}
			return err
		})
		if _, err := f.schedules.Fire(f.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		if fired, err := f.schedules.Fire(f.Context(), nil, nil); err != nil || fired.Next != 1 {
			t.Fatalf("the burst is over: %v, %v", fired.Next, err)
		}
		if n := f.counts("other").Length(); n != 1 {
			t.Errorf("the schedule has fired %d times in the burst", n)
		}
		f.fire()
	})
}
