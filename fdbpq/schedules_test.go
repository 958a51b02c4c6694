package fdbpq_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// schedule makes or changes a schedule.
func (f *fixture) schedule(queue, name, object string) schedule.Schedule {
	f.Helper()
	var made schedule.Schedule
	f.update(func(tx kv.Tx) (err error) {
		made, err = timetable(f.Queue(queue)).Set(tx, f.Queue(queue), name, []byte(object), nil)
		return err
	})
	return made
}

// scheduled shows a schedule.
func (f *fixture) scheduled(queue, name string) schedule.Schedule {
	f.Helper()
	var shown schedule.Schedule
	f.view(func(r kv.Reader) (err error) {
		shown, _, err = timetable(f.Queue(queue)).Get(r, f.Queue(queue), name, 10)
		return err
	})
	return shown
}

func (f *fixture) resume(queue, name string, fromNow bool) {
	f.Helper()
	f.update(func(tx kv.Tx) error {
		_, err := timetable(f.Queue(queue)).Resume(tx, f.Queue(queue), name, fromNow)
		return err
	})
}

// fire fires all that is due, and returns the missed times that this reports. Items of schedules must cause no events.
func (f *fixture) fire() (missed []schedule.MissedTimes) {
	f.Helper()
	for {
		fired, err := f.schedules.Fire(f.Context(), nil, nil)
		if err != nil {
			f.Fatal(err)
		}
		if missed = append(missed, fired.Missed...); len(fired.Events) > 0 {
			f.Errorf("events of items %+v", fired.Events)
		}
		if fired.Schedules == 0 && fired.Next != 1 {
			return missed
		}
	}
}

// nominal is what the headers of an item say about its schedule and its time.
func nominal(t testing.TB, headers []byte) (name string, at time.Time) {
	t.Helper()
	header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(slices.Clone(headers), "\r\n"...)))).ReadMIMEHeader()
	if err != nil {
		t.Fatalf("headers %q: %v", headers, err)
	}
	if at, err = time.Parse(time.RFC3339Nano, header.Get("PQ-Scheduled-At")); err != nil {
		t.Fatal(err)
	}
	return header.Get("PQ-Schedule"), at
}

// drained pops all items and returns their nominal times, as those since the test began.
func (f *fixture) drained(queue string) []string {
	f.Helper()
	times := []string{}
	for {
		popped := f.pop(queue, fdbpq.Min, 100)
		for _, item := range popped.Items {
			_, at := nominal(f, item.Headers)
			times = append(times, at.Sub(time.Unix(1_800_000_000, 0)).String())
		}
		if len(popped.Items) == 0 {
			return times
		}
	}
}

func (f *fixture) expectFired(queue string, times ...string) {
	f.Helper()
	f.fire()
	if got := f.drained(queue); !slices.Equal(got, times) {
		f.Errorf("fired at %v, expected %v", got, times)
	}
}

// allow has a schedule fire whatever its earlier items do.
const allow = `,"overlap":"allow"`

func eachSchedule(t *testing.T, test func(f *fixture)) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) { test(openFixture(t, open)) })
}

func TestScheduleFires(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.update(func(tx kv.Tx) error {
			_, err := timetable(f.Queue("q")).Set(tx, f.Queue("q"), "s", []byte(`{"spec":"@every 10s"`+allow+`}`), &schedule.Item{
				Headers: []byte("A: b\r\n"), Payload: []byte("\x00 report \x00"), Priority: -7, HasPriority: true, Key: "k", TTL: time.Hour,
			})
			return err
		})
		f.expectFired("q")
		f.pass(10 * time.Second)
		f.fire()
		item := f.leaseOne("q", time.Minute)
		if want := "A: b\r\nPQ-Schedule: s\r\nPQ-Scheduled-At: 2027-01-15T08:00:10Z\r\n"; string(item.Headers) != want {
			t.Errorf("headers %q, expected %q", item.Headers, want)
		}
		if string(item.Payload) != "\x00 report \x00" || item.Priority != -7 || item.Key != "k" {
			t.Errorf("item %+v", item)
		}
		f.pass(9 * time.Second)
		f.expectFired("q")
		f.pass(time.Second)
		f.expectFired("q", "20s")
		if s := f.scheduled("q", "s"); s.Fired != 2 || s.Missed != 0 || s.Overlapped != 0 || s.Last.Second() != 20 || s.Next.Second() != 30 {
			t.Errorf("schedule %+v", s)
		}
	})
}

func TestScheduleAndQueueMadeAgain(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.schedule("q", "s", `{"spec":"@every 10s"`+allow+`}`)
		f.pass(5 * time.Second)
		f.update(func(tx kv.Tx) error { return timetable(f.Queue("q")).Delete(tx, f.Queue("q"), "s") })
		f.schedule("q", "s", `{"spec":"@every 10s"`+allow+`}`)
		f.pass(6 * time.Second)
		f.expectFired("q")
		f.pass(4 * time.Second)
		f.expectFired("q", "15s")

		f.purge("q") // schedules stay
		f.pass(10 * time.Second)
		f.expectFired("q", "25s")

		f.delete("q")
		f.pass(10 * time.Second)
		f.fire()
		f.pushed("q", 0, "new")
		f.pass(20 * time.Second)
		f.fire()
		if n := f.counts("q").Length(); n != 1 {
			t.Errorf("the queue has %d items, expected one", n)
		}
		f.collectGarbage()
		f.pop("q", fdbpq.Min, 1)
		f.schedule("q", "s", `{"spec":"@every 10s"`+allow+`}`)
		f.pass(10 * time.Second)
		f.expectFired("q", "1m5s")
	})
}

// A full queue is like downtime: what is due is pushed when there is room.
func TestScheduleFullQueue(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.configure("q", `{"max_length":1}`)
		filler := f.pushed("q", 0, "filler")[0]
		f.schedule("q", "s", `{"spec":"@every 10s","catch_up":"1m"`+allow+`}`)
		f.pass(10 * time.Second)
		f.fire()
		if s := f.scheduled("q", "s"); !s.Full || s.Fired != 0 || s.Missed != 0 || s.Next.Second() != 10 {
			t.Errorf("schedule %+v", s)
		}
		f.pass(15 * time.Second)
		f.remove("q", filler)
		f.expectFired("q", "20s")

		f.pushed("q", 0, "filler")
		for range 20 {
			f.pass(5 * time.Second)
			for _, m := range f.fire() {
				if m.Queue != "q" || m.Schedule != "s" || m.Reason != "full" || m.Count == 0 {
					t.Errorf("misses %+v", m)
				}
			}
		}
		f.pop("q", fdbpq.Min, 1)
		f.pass(5 * time.Second)
		f.expectFired("q", "2m10s")
		// 10s with the first firing, and 30s to 2m with the second one
		if s := f.scheduled("q", "s"); s.Fired != 2 || s.Missed != 11 || s.Full {
			t.Errorf("schedule %+v", s)
		}
	})
}

// After a downtime with a million due times a bounded number fires, and the rest is counted.
func TestScheduleMillionDue(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		for _, spec := range []string{"@every 1s", "* * * * * *"} {
			queue := fmt.Sprintf("q%d", len(spec))
			f.schedule(queue, "s", fmt.Sprintf(`{"spec":%q,"catch_up":"720h","missed":"all"%s}`, spec, allow))
		}
		f.fire()
		f.pass(1_000_000 * time.Second)
		f.fire()
		for _, queue := range []string{"q9", "q11"} {
			times := f.drained(queue)
			if len(times) != 1000 || times[0] != (999_001*time.Second).String() || times[999] != (1_000_000*time.Second).String() {
				t.Errorf("%s: %d times from %s", queue, len(times), times[0])
			}
			if s := f.scheduled(queue, "s"); s.Fired != 1000 || s.Missed != 10_000 || s.Next.Unix() != 1_801_000_001 {
				t.Errorf("%s: schedule %+v", queue, s)
			}
		}
	})
}

func TestScheduleDownLongerThanCatchUp(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.schedule("q", "one", `{"spec":"@every 10m","catch_up":"25m"`+allow+`}`)
		f.schedule("p", "all", `{"spec":"@every 10m","catch_up":"25m","missed":"all"`+allow+`}`)
		f.schedule("n", "none", `{"spec":"@every 7m","catch_up":"10s"`+allow+`}`)
		f.fire()
		f.pass(61 * time.Minute)
		var missed []string
		for _, m := range f.fire() {
			missed = append(missed, fmt.Sprintf("%s %d %s %s %s", m.Schedule, m.Count, m.From.Format("15:04"), m.To.Format("15:04"), m.Reason))
		}
		slices.Sort(missed)
		if want := []string{"all 3 08:10 08:30 down", "none 8 08:07 08:56 down", "one 5 08:10 08:50 down"}; !slices.Equal(missed, want) {
			t.Errorf("misses %v, expected %v", missed, want)
		}
		for queue, want := range map[string][]string{"q": {"1h0m0s"}, "p": {"40m0s", "50m0s", "1h0m0s"}, "n": {}} {
			if got := f.drained(queue); !slices.Equal(got, want) {
				t.Errorf("%s fired at %v, expected %v", queue, got, want)
			}
		}
	})
}

// Times whose jitter brings them close together fire all, as long as the process is about on time.
func TestScheduleJitterMissesNothing(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.schedule("q", "s", `{"spec":"@every 2s","jitter":"10s"`+allow+`}`)
		f.fire()
		for range 300 {
			f.pass(900 * time.Millisecond)
			f.fire()
		}
		f.pass(2 * time.Second)
		f.fire()
		if c := f.scheduled("q", "s"); c.Missed != 0 || c.Fired < 135 || c.Fired > 136 {
			t.Errorf("counts %+v", c)
		}
	})
}

// After a pause that is longer, and when a queue was full, one of several times fires.
func TestScheduleLateTimes(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.schedule("q", "s", `{"spec":"@every 2s"`+allow+`}`)
		f.fire()
		f.pass(14 * time.Second)
		f.expectFired("q", "10s", "12s", "14s")
		f.configure("q", `{"max_length":1}`)
		f.push("q", fdbpq.NewItem{})
		f.pass(2 * time.Second)
		f.fire()
		f.pass(4 * time.Second)
		if n := len(f.pop("q", fdbpq.Min, 1).Items); n != 1 {
			t.Fatalf("%d items", n)
		}
		f.pass(2 * time.Second)
		f.expectFired("q", "22s")
	})
}

func TestScheduleOverlap(t *testing.T) {
	for _, test := range []struct {
		overlap           string
		waiting, leased   int64 // items after a time that comes while one waits, and is leased
		fired, overlapped int64
		content           string
	}{
		{"skip", 1, 1, 1, 2, "first"},
		{"one", 1, 2, 2, 1, "first"},
		{"replace", 1, 1, 2, 1, "second"},
		{"allow", 2, 3, 3, 0, "first"},
	} {
		t.Run(test.overlap, func(t *testing.T) {
			eachSchedule(t, func(f *fixture) {
				set := func(payload string) {
					f.update(func(tx kv.Tx) error {
						_, err := timetable(f.Queue("q")).Set(tx, f.Queue("q"), "s", fmt.Appendf(nil, `{"spec":"@every 1m","overlap":%q}`, test.overlap), &schedule.Item{Payload: []byte(payload)})
						return err
					})
				}
				set("first")
				f.pass(time.Minute)
				f.fire()
				set("second")
				f.pass(time.Minute)
				f.fire()
				if n := f.counts("q").Length(); n != test.waiting {
					t.Errorf("%d items beside one that waits, expected %d", n, test.waiting)
				}
				item := f.leaseOne("q", time.Hour)
				if string(item.Payload) != test.content {
					t.Errorf("content %q, expected %q", item.Payload, test.content)
				}
				f.pass(time.Minute)
				f.fire()
				if n := f.counts("q").Length(); n != test.leased {
					t.Errorf("%d items beside a leased one, expected %d", n, test.leased)
				}
				if s := f.scheduled("q", "s"); s.Fired != test.fired || s.Overlapped != test.overlapped || s.Missed != 0 {
					t.Errorf("fired %d, overlapped %d, missed %d: expected %d, %d and 0", s.Fired, s.Overlapped, s.Missed, test.fired, test.overlapped)
				}
				if err := f.nack(*item.Lease, 30*time.Second); err != nil { // an item that waits for its retry lives
					t.Fatal(err)
				}
			})
		})
	}
}

// The first of several times fires, and the others overlap it.
func TestScheduleOverlapTold(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.schedule("q", "s", `{"spec":"@every 1m","missed":"all"}`)
		f.pass(3 * time.Minute)
		missed := f.fire()
		if len(missed) != 1 {
			t.Fatalf("misses %+v", missed)
		}
		if m := missed[0]; m.Reason != "overlap" || m.Count != 2 || m.From.Minute() != 2 || m.To.Minute() != 3 {
			t.Errorf("misses %+v", m)
		}
	})
}

// A schedule with more times than it may fire in one turn beside another queue's tells of all of them at once.
func TestScheduleOverlapToldAfterTheLastTurn(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		for _, queue := range []string{"q", "r"} {
			f.schedule(queue, "s", `{"spec":"@every 1m","missed":"all"}`)
		}
		f.pass(60 * time.Minute)
		missed := f.fire()
		if len(missed) != 2 {
			t.Fatalf("misses %+v", missed)
		}
		for _, m := range missed {
			if m.Reason != "overlap" || m.Count != 59 || m.From.Minute() != 2 || m.To.Minute() != 0 {
				t.Errorf("misses %+v", m)
			}
		}
	})
}

// Firings report all times without an item, at most once a minute, each reason apart; also those of a
// schedule that has stopped meanwhile.
func TestScheduleMissesTold(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.configure("full", `{"max_length":1}`)
		f.pushed("full", 0, "filler")
		f.schedule("full", "s", `{"spec":"@every 1s"`+allow+`}`)
		f.schedule("skip", "s", `{"spec":"@every 1s"}`)
		f.fire()
		counts, at := map[string]int64{}, map[string][]int64{}
		watch := func(seconds int) {
			for range seconds {
				f.pass(time.Second)
				for _, m := range f.fire() {
					what := m.Queue + " " + m.Reason
					if counts[what] += m.Count; m.AtLeast || m.Count != int64(m.To.Sub(m.From)/time.Second)+1 {
						t.Errorf("misses %+v", m)
					}
					if now := (1_800_000_000 + int64(time.Duration(f.clock.elapsed.Load()).Seconds())) / 60; slices.Contains(at[what], now) {
						t.Errorf("misses %q are reported a second time within a minute", what)
					} else {
						at[what] = append(at[what], now)
					}
				}
			}
		}
		watch(130)
		f.schedule("skip", "s", `{"spec":"@yearly"}`)
		f.update(func(tx kv.Tx) error {
			_, err := timetable(f.Queue("full")).Pause(tx, f.Queue("full"), "s")
			return err
		})
		watch(61)
		skipped, full := f.scheduled("skip", "s"), f.scheduled("full", "s")
		if counts["skip overlap"] != skipped.Overlapped || skipped.Overlapped != 129 || counts["full full"] != full.Missed || full.Missed < 120 || len(counts) != 2 {
			t.Errorf("events tell %v, the schedules are %+v and %+v", counts, skipped, full)
		}
		watch(120)
		if len(at["skip overlap"]) > 4 || len(at["full full"]) > 4 {
			t.Errorf("events in the minutes %v", at)
		}
	})
}

// A pause ends no schedule that is done, and keeps none.
func TestSchedulePausedWhenDone(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.schedule("q", "s", `{"spec":"@every 1s","count":1}`)
		f.pass(time.Second)
		f.fire()
		f.pass(time.Hour)
		f.update(func(tx kv.Tx) error {
			_, err := timetable(f.Queue("q")).Pause(tx, f.Queue("q"), "s")
			return err
		})
		if s := f.scheduled("q", "s"); !s.Done() || !s.Config.Paused {
			t.Errorf("schedule %+v", s)
		}
		f.pass(23 * time.Hour)
		f.fire()
		f.view(func(r kv.Reader) error {
			_, _, err := timetable(f.Queue("q")).Get(r, f.Queue("q"), "s", 1)
			if err != schedule.ErrNone {
				t.Errorf("a day later: %v", err)
			}
			return nil
		})
	})
}

// A schedule shows no more times than its count leaves.
func TestScheduleCountBoundsTimes(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.schedule("q", "s", `{"spec":"@every 1m","count":3`+allow+`}`)
		f.pass(time.Minute)
		f.fire()
		f.view(func(r kv.Reader) error {
			_, times, err := timetable(f.Queue("q")).Get(r, f.Queue("q"), "s", 10)
			if err != nil || len(times) != 2 {
				t.Errorf("it shows %v, %v", times, err)
			}
			for object, want := range map[string]int{`{"count":5}`: 4, `{"count":0}`: 10, `{"count":1}`: 0, `{}`: 2} {
				if times, err = timetable(f.Queue("q")).Preview(r, f.Queue("q"), "s", []byte(object), nil, 10); err != nil || len(times) != want {
					t.Errorf("preview of %s: %v, %v", object, times, err)
				}
			}
			if times, err = timetable(f.Queue("q")).Preview(r, f.Queue("q"), "new", []byte(`{"spec":"@daily","count":2}`), nil, 10); err != nil || len(times) != 2 {
				t.Errorf("preview of a new one: %v, %v", times, err)
			}
			return nil
		})
	})
}

// A jitter beyond catch_up is no lateness, and one beyond the period keeps each time.
func TestScheduleJitter(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.schedule("q", "s", `{"spec":"@every 1m","catch_up":"10s","jitter":"1h"`+allow+`}`)
		f.schedule("p", "s", `{"spec":"0 * * * *","catch_up":"10s","jitter":"1h"`+allow+`}`)
		var late []time.Duration
		for range 3 * 3600 {
			f.clock.advance(time.Second)
			fired, err := f.schedules.Fire(t.Context(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			late = append(late, fired.Lateness...)
		}
		if n := len(f.drained("q")); n != 179 && n != 180 {
			t.Errorf("%d firings, expected 180", n)
		}
		if s := f.scheduled("q", "s"); s.Missed != 0 {
			t.Errorf("%d misses", s.Missed)
		}
		if n := len(f.drained("p")); n < 2 || n > 3 {
			t.Errorf("%d hourly firings", n)
		}
		if worst := slices.Max(late); worst > time.Second {
			t.Errorf("a firing was %s late", worst)
		}
	})
}

func TestScheduleEnds(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.schedule("q", "at", `{"spec":"@at 2027-01-15T08:00:05Z"`+allow+`}`)
		f.schedule("q", "count", `{"spec":"@every 10s","count":2`+allow+`}`)
		f.schedule("q", "end", `{"spec":"@every 10s","end":"2027-01-15T08:00:10Z"`+allow+`}`)
		for range 50 {
			f.pass(time.Second)
			f.fire()
		}
		got := f.drained("q")
		slices.Sort(got)
		if want := []string{"10s", "10s", "20s", "5s"}; !slices.Equal(got, want) {
			t.Errorf("fired at %v, expected %v", got, want)
		}
		for _, name := range []string{"at", "count", "end"} {
			if s := f.scheduled("q", name); !s.Done() || s.Missed != 0 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		f.schedule("q", "count", `{"count":3}`)
		f.pass(10 * time.Second)
		f.expectFired("q", "1m0s")
		f.pass(25 * time.Hour)
		f.fire()
		f.view(func(r kv.Reader) error {
			left, err := timetable(f.Queue("q")).List(r, f.Queue("q"), "", 10)
			if err == nil && len(left) != 0 {
				t.Errorf("a day later %d schedules are left", len(left))
			}
			return err
		})
	})
}

func TestSchedulePaused(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.schedule("q", "s", `{"spec":"@every 10s","missed":"all"`+allow+`}`)
		f.pass(10 * time.Second)
		f.fire()
		f.schedule("q", "s", `{"paused":true}`)
		f.pass(25 * time.Second)
		f.fire()
		f.resume("q", "s", false)
		f.pass(5 * time.Second)
		f.expectFired("q", "10s", "40s")
		if s := f.scheduled("q", "s"); s.Missed != 0 {
			t.Errorf("%d misses", s.Missed)
		}
	})
}

// What has come and has not fired is missed when a change has the schedule go on behind it.
func TestScheduleDropsWhatIsDue(t *testing.T) {
	changes := map[string]func(f *fixture, queue string){
		"pause":     func(f *fixture, queue string) { f.schedule(queue, "s", `{"paused":true}`) },
		"from now":  func(f *fixture, queue string) { f.resume(queue, "s", true) },
		"spec":      func(f *fixture, queue string) { f.schedule(queue, "s", `{"spec":"@every 20s"}`) },
		"end":       func(f *fixture, queue string) { f.schedule(queue, "s", `{"end":"2027-01-15T08:00:01Z"}`) },
		"end later": func(f *fixture, queue string) { f.schedule(queue, "s", `{"end":"2027-01-15T08:00:20Z"}`) },
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			eachSchedule(t, func(f *fixture) {
				f.configure("full", `{"max_length":1}`)
				f.pushed("full", 0, "filler")
				for _, queue := range []string{"full", "down"} {
					f.schedule(queue, "s", `{"spec":"@every 10s","missed":"all"`+allow+`}`)
				}
				f.pass(10 * time.Second)
				f.fire()
				f.pass(25 * time.Second)
				told := make(map[string]int64)
				for _, queue := range []string{"full", "down"} {
					before := f.scheduled(queue, "s")
					if change(f, queue); name == "pause" {
						f.resume(queue, "s", false)
					}
					due := int64(2) // 20 s and 30 s
					if queue == "full" {
						due++ // 10 s
					}
					if name == "end later" {
						due = 1 // the others fire yet
					}
					if after := f.scheduled(queue, "s"); after.Missed-before.Missed != due || after.Fired != before.Fired {
						t.Errorf("%s: %+v, expected %d misses more than in %+v", queue, after, due, before)
					}
				}
				f.configure("full", `{"max_length":0}`)
				for range 12 {
					f.pass(10 * time.Second)
					for _, m := range f.fire() {
						told[m.Queue+" "+m.Reason] += m.Count
					}
				}
				for _, queue := range []string{"full", "down"} {
					if s := f.scheduled(queue, "s"); told[queue+" "+queue] != s.Missed || len(told) != 2 {
						t.Errorf("firings report %v, the schedule is %+v", told, s)
					}
				}
			})
		})
	}
}

// A time that waits for its jitter when the schedule is paused is missed, not forgotten.
func TestScheduleDropsWhatWaits(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.schedule("q", "s", `{"spec":"@at 2027-01-15T08:00:05Z","jitter":"1h"`+allow+`}`)
		f.pass(6 * time.Second)
		f.fire()
		f.schedule("q", "s", `{"paused":true}`)
		f.resume("q", "s", false)
		if s := f.scheduled("q", "s"); s.Fired+s.Missed != 1 {
			t.Errorf("the schedule is %+v", s)
		}
	})
}

// A change that leaves its times alone does not have a schedule forget that its queue was full.
func TestScheduleStaysFull(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.configure("q", `{"max_length":1}`)
		filler := f.pushed("q", 0, "filler")[0]
		f.schedule("q", "s", `{"spec":"@every 1s"`+allow+`}`)
		for range 8 {
			f.pass(time.Second)
			f.fire()
		}
		f.remove("q", filler)
		if s := f.schedule("q", "s", `{"catch_up":"2h"}`); !s.Full {
			t.Errorf("the schedule is %+v", s)
		}
		f.expectFired("q", "8s") // one of several: those before were not late, but had no room
		for _, m := range f.fire() {
			if m.Reason != "full" {
				t.Errorf("misses %+v", m)
			}
		}
	})
}

// A schedule whose item has no room waits, whoever says so. What has asked for room is told when the transaction has ended, and what
// fired says how large it was.
func TestScheduleWaitsForRoom(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.update(func(tx kv.Tx) error {
			_, err := timetable(f.Queue("q")).Set(tx, f.Queue("q"), "s", []byte(`{"spec":"@every 10s"}`), &schedule.Item{Payload: []byte("12345"), Key: strings.Repeat("k", 128)})
			return err
		})
		var no error
		var asked, ended, bytes int
		room := func(queue string, n int) (func(), error) {
			if asked++; queue != "q" {
				f.Errorf("room of queue %q is asked for", queue)
			}
			bytes = n
			return func() {
				ended++
				if full, there := no != nil, f.counts("q").Length() > 0; full == there {
					f.Errorf("at the end of a transaction its item is there: %t", there)
				}
			}, no
		}
		fire := func() (did schedule.FiredQueue) {
			fired, err := f.schedules.Fire(f.Context(), room, nil)
			if err != nil || asked == 0 || ended != asked {
				f.Errorf("fired with %v; %d have asked for room, and %d were told of the end", err, asked, ended)
			}
			return fired.Queues["q"]
		}
		f.fire()
		f.pass(10 * time.Second)
		no = errors.New("no request is left")
		if did := fire(); did.Fired+did.Bytes+did.Missed != 0 || !f.scheduled("q", "s").Full {
			f.Errorf("without room it did %+v", did)
		}
		no = nil
		f.pass(5 * time.Second)
		if did, more := fire(), f.counts("q").Overhead; did.Fired != 1 || did.Bytes+more != int64(bytes) || did.Bytes <= 5 || more == 0 || f.scheduled("q", "s").Full {
			f.Errorf("with room for %d bytes it did %+v, with an overhead of %d", bytes, did, more)
		}
	})
}

// A changed start begins with its first time after now, also where there was another one before.
func TestScheduleStartChanged(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.schedule("q", "s", `{"spec":"@every 10s","start":"2027-01-15T08:00:10Z","missed":"all"`+allow+`}`)
		f.pass(35 * time.Second)
		f.schedule("q", "s", `{"start":"2027-01-15T08:00:12Z"}`)
		f.expectFired("q")
		f.pass(7 * time.Second)
		f.expectFired("q", "42s")
	})
}

// always is the room of a store and tenants without bounds.
func always(int) error { return nil }

func TestScheduleRun(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		f.schedule("q", "s", `{"spec":"@daily"}`)
		asked := 0
		run := func(id string) (pushed fdbpq.Pushed) {
			f.update(func(tx kv.Tx) (err error) {
				pushed, err = timetable(f.Queue("q")).Push(tx, f.Queue("q"), "s", id, func(bytes int) error { asked = bytes; return nil })
				return err
			})
			return pushed
		}
		first := run("a")
		if n := f.counts("q"); int64(asked) != n.Bytes+n.Overhead+fdbpq.RememberedBytes {
			t.Errorf("it asks for room for %d bytes, and takes %+v", asked, n)
		}
		if again := run("a"); !again.Duplicate || again.ID != first.ID {
			t.Errorf("a repetition answers %+v", again)
		}
		if other := run("b"); !other.Duplicate || other.ID != first.ID { // it overlaps
			t.Errorf("another run answers %+v", other)
		}
		f.expectFired("q", "0s")
		if other := run("c"); other.Duplicate || other.Err != nil {
			t.Errorf("a run answers %+v", other)
		}
	})
}

func TestScheduleRefused(t *testing.T) {
	eachSchedule(t, func(f *fixture) {
		set := func(name, object string, item *schedule.Item) error {
			return f.fails(func(tx kv.Tx) error {
				_, err := timetable(f.Queue("q")).Set(tx, f.Queue("q"), name, []byte(object), item)
				return err
			})
		}
		for _, test := range []struct{ name, object, says string }{
			{"s", `{}`, "fields"},
			{"s", `{"spec":"0 0 30 2 *"}`, "eight years"},
			{"s", `{"spec":"@at 2020-01-01T00:00:00Z"}`, "eight years"},
			{"s", `{"spec":"@at 2030-01-01T00:00:00Z","start":"2031-01-01T00:00:00Z"}`, "start is 2031"},
			{"s", `{"spec":"@daily","zone":"Local"}`, "Europe/Berlin"},
			{"s", `{"spec":"@daily","zone":null}`, "null"},
			{"s", `{"spec":"@daily","count":-1}`, "negative"},
			{"s", `{"spec":"@daily","overlap":"queue"}`, "replace"},
			{"s", `{"spec":"@daily","missed":"none"}`, "all"},
			{"s", `{"spec":"@daily","start":"0001-01-01T00:00:00Z"}`, "start is in the year 1"},
			{"s", `{"spec":"@daily","end":"0001-01-01T00:00:00Z"}`, "end is in the year 1"},
			{"s", `{"spec":"@daily","catch_up":"5s"}`, "10s"},
			{"s", `{"spec":"@daily","jitter":"2h"}`, "1h"},
			{"s", `{"spec":"@daily","cron":"x"}`, "unknown field"},
			{"s.t", `{"spec":"@daily"}`, "name"},
			{"", `{"spec":"@daily"}`, "name"},
			{strings.Repeat("s", 65), `{"spec":"@daily"}`, "name"},
		} {
			err := set(test.name, test.object, nil)
			var wrong *schedule.Error
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s %s: error %v, expected one that says %q", test.name, test.object, err, test.says)
			}
		}
		if err := set("s", `{"spec":"@daily"}`, &schedule.Item{Payload: make([]byte, schedule.MaxItem+1)}); !strings.Contains(err.Error(), "65536") {
			t.Error(err)
		}
		f.update(func(tx kv.Tx) error {
			_, err := timetable(f.Queue("q")).Set(tx, f.Queue("q"), "large", []byte(`{"spec":"@daily"}`), &schedule.Item{Payload: make([]byte, schedule.MaxItem)})
			return err
		})
		for n := range schedule.MaxDense {
			f.schedule("q", fmt.Sprint("s", n), `{"spec":"@every 59s"}`)
		}
		if err := set("more", `{"spec":"@every 59s"}`, nil); !errors.Is(err, schedule.ErrTooMany) {
			t.Error(err)
		}
		f.schedule("q", "more", `{"spec":"@every 60s"}`)
		if err := set("more", `{"spec":"* * * * * *"}`, nil); !errors.Is(err, schedule.ErrTooMany) {
			t.Error(err)
		}
		for _, err := range []error{
			f.fails(func(tx kv.Tx) error { return timetable(f.Queue("q")).Delete(tx, f.Queue("q"), "none") }),
			f.fails(func(tx kv.Tx) error {
				_, err := timetable(f.Queue("q")).Push(tx, f.Queue("q"), "none", "", always)
				return err
			}),
			f.fails(func(tx kv.Tx) error { _, err := timetable(f.Queue("q")).Pause(tx, f.Queue("q"), "none"); return err }),
		} {
			if !errors.Is(err, schedule.ErrNone) {
				t.Error(err)
			}
		}
		if p := f.push("q", fdbpq.NewItem{Unique: "\x00schedule\x00s1"})[0]; !errors.Is(p.Err, fdbpq.ErrUnique) {
			t.Errorf("a push with a unique value of a schedule: %+v", p)
		}
	})
}

// A schedule that ends in the middle of a firing fires nothing.
func TestScheduleEndsDuringFiring(t *testing.T) {
	for name, end := range map[string]func(kv.Tx, fdbpq.Queue) error{
		"deleted": func(tx kv.Tx, q fdbpq.Queue) error { return timetable(q).Delete(tx, q, "s") },
		"paused": func(tx kv.Tx, q fdbpq.Queue) error {
			_, err := timetable(q).Pause(tx, q, "s")
			return err
		},
		"its queue is deleted": func(tx kv.Tx, q fdbpq.Queue) error {
			_, err := q.Delete(tx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachSchedule(t, func(f *fixture) {
				other := f.another(0)
				f.schedule("q", "s", `{"spec":"@every 10s"`+allow+`}`)
				f.fire()
				f.pass(10 * time.Second)
				ended := false
				f.hook = func(at fault.Point) {
					if at == fault.BeforeCommit && !ended {
						ended = true
						other.update(func(tx kv.Tx) error { return end(tx, other.Queue("q")) })
					}
				}
				f.fire()
				if f.hook = nil; !ended || f.counts("q").Length() != 0 {
					t.Errorf("ended in time: %t; %d items", ended, f.counts("q").Length())
				}
			})
		})
	}
}
