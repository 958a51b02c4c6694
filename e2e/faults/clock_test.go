package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/clock"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// far is the longest jump of a clock.
const far = time.Hour

// punctual is how late something of a few seconds may happen on a machine that runs the test alone.
const punctual = 2 * time.Second

// anyClock is any that is not wrong by more than far.
func anyClock(random *rand.Rand) time.Duration {
	return time.Duration(random.Int64N(int64(2*far))) - far
}

// Leases, delays, TTLs, results and remembered ids last as long as they are to, by a clock that nobody sets, and a
// waiting pop waits as long as it is to.
func TestClockJumps(t *testing.T) {
	nightly.Only(t, "fdbpq has wrong clocks: TestLeaseUnderWrongClocks")
	t.Parallel()
	p := testenv.DaemonOf(t, clock.Program(t), clock.File(t))
	random := pqd.Seeded(t)
	nc := p.Connect(t)
	all := []*holders{holdAll(t, nc, "before")}
	at := []time.Duration{far, 0, -far, 0, -time.Second, far, -far, far, 0}
	for range nightly.Fewer(20) {
		at = append(at, anyClock(random))
	}
	for n, by := range at {
		const short = 3 * time.Second
		times := pqd.BeginTimes(t, nc, fmt.Sprint("jump-", n), short)
		answers := waits(nc, fmt.Sprint("pq.jump-", n, "-empty.pop.min"), short)
		clock.Set(t, p, by)
		t.Logf("the clock is set to %s", by)
		if n < 3 { // a client that knows the end of its lease alone takes the lease for one that is over, or for a long one
			all = append(all, holdAll(t, nc, fmt.Sprint("since-", n)))
		}
		times.Go()
		times.Last()
		times.Come(testenv.Times(punctual))
		times.Last()
		// It is answered in time for a client that waits no longer.
		if w := <-answers; w.err != nil || w.answer.Header.Get("Status") != "408" || w.after < short-100*time.Millisecond || w.after > short+testenv.Times(punctual) {
			t.Errorf("a pop that waits for %s is answered after %s: %+v, %v", short, w.after, w.answer, w.err)
		}
		for _, h := range all {
			h.judge()
		}
	}
	for _, h := range all {
		h.end()
	}
	if ended := nc.Stats().Reconnects; ended > 0 {
		t.Errorf("the connection has ended %d times", ended)
	}
	p.Stop(t)
}

// waited is the answer to a pop that waits.
type waited struct {
	answer *nats.Msg
	err    error
	after  time.Duration
}

func waits(nc *nats.Conn, subject string, wait time.Duration) <-chan waited {
	m := nats.NewMsg(subject)
	m.Header.Set("PQ-Wait", wait.String())
	answers := make(chan waited, 1)
	go func() {
		sent := time.Now()
		answer, err := nc.RequestMsg(m, wait+testenv.Patience())
		answers <- waited{answer, err, time.Since(sent)}
	}()
	return answers
}

// holders hold leases, which their clients extend: one for hours, one for seconds, and one for as long as the queue says.
type holders struct {
	*testing.T
	nc    *nats.Conn
	name  string
	items []*client.Item
	held  []context.Context
}

func holdAll(t *testing.T, nc *nats.Conn, name string) *holders {
	t.Helper()
	h := &holders{T: t, nc: nc, name: name}
	c, err := client.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for n, options := range [][]client.PopOption{{client.Lease(time.Hour)}, {client.Lease(10 * time.Second)}, nil} {
		q := c.Queue(fmt.Sprint(name, "-", n))
		pqd.Request(t, nc, "pq."+q.Name()+".admin.config", `{"lease":"30s"}`)
		pqd.Push(t, nc, q.Name(), 1, "x")
		item, err := q.Pop(t.Context(), client.Min, options...)
		if err != nil {
			t.Fatal(err)
		}
		held, stop := item.Hold(t.Context())
		t.Cleanup(stop)
		h.items, h.held = append(h.items, item), append(h.held, held)
	}
	return h
}

func (h *holders) judge() {
	h.Helper()
	for n, held := range h.held {
		if held.Err() != nil {
			h.Fatalf("holder %s-%d has lost its lease: %v", h.name, n, context.Cause(held))
		}
		pqd.ExpectEmpty(h.T, h.nc, fmt.Sprint(h.name, "-", n))
	}
}

func (h *holders) end() {
	h.Helper()
	for n, item := range h.items {
		if err := item.Ack(h.Context()); err != nil {
			h.Errorf("holder %s-%d: %v", h.name, n, err)
		}
	}
}

// What clients see of queues and schedules while the clock jumps is what they see while it is right. No jump
// lasts for a minute, so schedules believe none that is more than two seconds.
func TestClockJumpsUnderLoad(t *testing.T) {
	nightly.Only(t, "fdbpq has wrong clocks: TestLeaseUnderWrongClocks, TestScheduleClockAheadAgain")
	t.Parallel()
	p := testenv.DaemonOf(t, clock.Program(t), clock.File(t))
	random := pqd.Seeded(t)
	nc := p.Connect(t)
	s := pqd.NewSchedules(t, random, func() *nats.Conn { return nc })
	s.Await() // the first firing believes the clock of its moment
	c := &pqd.Campaign{Process: p, URL: p.URL, Random: random, Faults: make(map[string]int), Promises: pqd.AllPromises}
	near := func() time.Duration { // schedules follow the clock from any of these to any other
		return time.Duration(random.Int64N(int64(1800*time.Millisecond))) - 900*time.Millisecond
	}
	c.Fault = func(t testing.TB) string {
		times := 1 + random.IntN(3)
		for range times {
			clock.Set(t, p, anyClock(random))
			c.Moment()
		}
		clock.Set(t, p, near())
		c.Moment()
		return fmt.Sprint(times, " times far")
	}
	const workers, steps = 8, 75
	for range pqd.AllPromises {
		c.Long(t, fmt.Sprint("long-", c.Queues), workers, steps, c.Moments(4, workers*steps)...)
	}
	c.Short(t, "short", 8, 80, 180)
	clock.Set(t, p, 0)
	t.Logf("the clock was %v", c.Faults)
	s.Judge()
	p.Stop(t)
}

// A clock that stays an hour ahead is that of schedules after a minute, and so it is when it is right again.
func TestClockStaysAhead(t *testing.T) {
	nightly.Only(t, "bridge has the event: TestScheduleClockIsSet")
	t.Parallel()
	p := testenv.DaemonOf(t, clock.Program(t), clock.File(t))
	nc := p.Connect(t)
	h := holdAll(t, nc, "held")
	f := &firing{T: t, nc: nc}
	clocks, misses := f.hear("pq._sys.event.clock"), f.hear("pq.often.event.schedule_missed")
	brief := pqd.PushMsg(t, nc, "pq.done.push.1", "brief", "PQ-Result-TTL", "1m")
	lasting := pqd.PushMsg(t, nc, "pq.done.push.1", "lasting", "PQ-Result-TTL", "10m")
	pqd.Drain(t, nc, "done")

	// The first of its times comes after the clock is believed, and an hour has six of them.
	first := time.Now().Add(5 * time.Minute).Truncate(time.Second).UTC()
	f.ask("often", "admin.schedule.minutes", fmt.Sprintf(
		`{"spec":"@every 10m","start":%q,"catch_up":"30m","missed":"all","overlap":"allow","item":{"payload":"x"}}`, first.Format(time.RFC3339)), nil)
	f.ask("often", "admin.schedule.seconds", `{"spec":"@every 1s","overlap":"allow","item":{"payload":"x"}}`, nil)
	testenv.Await(t, "a schedule fires", func() bool { return f.counts("seconds").Fired > 1 })
	clock.Set(t, p, far)
	f.standsStill(clocks, far)
	testenv.Await(t, "the times of an hour are over", func() bool {
		counts := f.counts("minutes")
		return counts.Fired+counts.Missed == 6
	})
	want := []time.Time{first.Add(30 * time.Minute), first.Add(40 * time.Minute), first.Add(50 * time.Minute)}
	if fired := f.fired("minutes"); !slices.EqualFunc(fired, want, time.Time.Equal) {
		t.Errorf("with a catch_up of 30m %v fired, expected %v", fired, want)
	}
	var missed protocol.ScheduleEvent
	if f.next(misses, &missed); missed.Schedule != "minutes" {
		f.next(misses, &missed) // the other one misses times, too
	}
	if missed.Schedule != "minutes" || missed.Reason != "down" || missed.Count != 3 || !missed.From.Equal(first) || !missed.To.Equal(first.Add(20*time.Minute)) {
		t.Errorf("%+v is told, expected the three times from %s on", missed, first)
	}
	h.judge()

	testenv.Await(t, "a schedule fires", func() bool { return time.Until(f.counts("seconds").Last) > far-time.Minute })
	pqd.Push(t, nc, "seen", 1, "x")
	clock.Set(t, p, 0)
	pqd.Push(t, nc, "seen", 1, "x")
	f.standsStill(clocks, -far)
	f.showsLastMinutes("seen", 2)
	before := f.counts("seconds")
	f.ask("often", "admin.schedule.seconds.resume", `{"from":"now"}`, nil)
	testenv.Await(t, "a schedule that has begun anew fires", func() bool { return f.counts("seconds").Fired > before.Fired+2 })
	if fired := f.fired("minutes"); !slices.EqualFunc(fired, want, time.Time.Equal) {
		t.Errorf("%v fired, and %v before the clock was set back", fired, want)
	}
	testenv.Await(t, "a result of a minute is forgotten", func() bool {
		return pqd.Request(t, nc, "pq.done.result."+brief, "").Header.Get("PQ-Reason") == "unknown"
	})
	if answer := pqd.Request(t, nc, "pq.done.result."+lasting, ""); answer.Header.Get("PQ-Outcome") != "done" {
		t.Errorf("a result of ten minutes is gone: %v", answer.Header)
	}
	h.judge()
	h.end()
	p.Stop(t)
}

// firing looks at schedules of one queue.
type firing struct {
	*testing.T
	nc *nats.Conn
}

func (f *firing) ask(queue, verb, body string, result any) {
	f.Helper()
	answer := pqd.Request(f.T, f.nc, "pq."+queue+"."+verb, body)
	if code := answer.Header.Get("Nats-Service-Error-Code"); code != "" {
		f.Fatalf("%s of %s: %s %s", verb, queue, code, answer.Data)
	}
	if result == nil {
		return
	}
	if err := json.Unmarshal(answer.Data, result); err != nil {
		f.Fatal(err)
	}
}

func (f *firing) hear(subject string) *nats.Subscription {
	f.Helper()
	s, err := f.nc.SubscribeSync(subject)
	if err == nil {
		err = f.nc.Flush()
	}
	if err != nil {
		f.Fatal(err)
	}
	return s
}

func (f *firing) next(s *nats.Subscription, event any) {
	f.Helper()
	m, err := s.NextMsg(testenv.Patience())
	if err == nil {
		err = json.Unmarshal(m.Data, event)
	}
	if err != nil {
		f.Fatalf("%s: %v", s.Subject, err)
	}
}

type fired struct {
	protocol.ScheduleCount
	Last time.Time
}

func (f *firing) counts(name string) fired {
	f.Helper()
	var shown protocol.Schedule
	f.ask("often", "schedule."+name, "", &shown)
	return fired{shown.Counts, shown.Last}
}

// showsLastMinutes judges that the history of a queue ends now, and has what was pushed within the last minutes.
func (f *firing) showsLastMinutes(queue string, pushes int64) {
	f.Helper()
	var info struct{ History protocol.History }
	f.ask(queue, "info", `{"history":true}`, &info)
	h, shown := info.History, int64(0)
	for _, n := range h.Push[len(h.Push)-10:] {
		shown += n
	}
	if age := time.Since(h.End); shown != pushes || age < 0 || age > testenv.Times(2*time.Minute) {
		f.Errorf("the last hour of %s ends at %s, with %d pushes in its last minutes, expected %d: %v", queue, h.End, shown, pushes, h.Push)
	}
}

// fired are the times for which a schedule has pushed items.
func (f *firing) fired(name string) (all []time.Time) {
	f.Helper()
	for ask := (protocol.ListRequest{Limit: 1000}); ; {
		text, err := json.Marshal(ask)
		if err != nil {
			f.Fatal(err)
		}
		var page protocol.Page
		f.ask("often", "list", string(text), &page)
		for _, i := range page.Items {
			header := nats.Header(i.Headers)
			if header.Get("PQ-Schedule") != name {
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, header.Get("PQ-Scheduled-At"))
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, at)
		}
		if ask.After = page.Next; page.Next == "" {
			return all
		}
	}
}

// standsStill judges that nothing fires for a minute, and that the clock of schedules is set then.
func (f *firing) standsStill(clocks *nats.Subscription, by time.Duration) {
	f.Helper()
	set, before := time.Now(), f.counts("seconds").Fired // one that is under way may come
	var event *nats.Msg
	for event == nil {
		if passed := time.Since(set); passed > time.Minute+testenv.Patience() {
			f.Fatalf("the clock of schedules is not set after %s", passed)
		}
		now := f.counts("seconds").Fired
		if m, err := clocks.NextMsg(100 * time.Millisecond); err == nil {
			event = m
		}
		if passed := time.Since(set); now > before+1 && passed < time.Minute {
			f.Fatalf("a schedule has fired %d times within %s after the clock was set", now-before, passed)
		}
	}
	var e protocol.ClockEvent
	if err := json.Unmarshal(event.Data, &e); err != nil {
		f.Fatal(err)
	}
	moved, err := time.ParseDuration(e.By)
	if passed := time.Since(set); err != nil || (moved-by).Abs() > 2*time.Second || passed < time.Minute || !strings.HasSuffix(e.Type, ".event.clock") {
		f.Errorf("after %s: %+v, expected %s after a minute", passed, e, by)
	}
}
