package bridge_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// A schedule pushes to its queue, and pops that wait get the items.
func TestScheduleFires(t *testing.T) {
	t.Parallel()
	c := serve(t)
	made := object[protocol.Schedule](c, "pq.jobs.admin.schedule.tick",
		`{"spec":"@every 1s","item":{"payload":"work","headers":{"Kind":["a","b"],"One":"x"},"priority":-3,"key":"k"}}`)
	if made.Name != "tick" || made.Overlap != "skip" || made.CatchUp != protocol.Duration(time.Hour) || made.Missed != "one" || made.Next.IsZero() {
		t.Errorf("it answers %+v", made)
	}
	m := c.pop("pq.jobs.pop.min", "", "PQ-Wait", forever)
	if at, err := time.Parse(time.RFC3339Nano, m.Header.Get("PQ-Scheduled-At")); err != nil || at.Before(made.Next) {
		t.Errorf("it fired for %s, expected %s or later: %v", at, made.Next, err)
	}
	if string(m.Data) != "work" || m.Header.Get("PQ-Schedule") != "tick" || m.Header.Get("PQ-Priority") != "-3" || m.Header.Get("PQ-Key") != "k" ||
		fmt.Sprint(m.Header["Kind"], m.Header["One"]) != "[a b] [x]" {
		t.Errorf("item %q with %v", m.Data, m.Header)
	}
	testenv.Await(t, "the metrics", func() bool { return c.own()["pq_schedule_lateness_seconds{}"] >= 1 })
	if offset, exported := c.own()["pq_schedule_clock_offset_seconds{}"]; !exported || math.Abs(offset) > 2 {
		t.Errorf("the clock of schedules is %v seconds away", offset)
	}
	shown := object[protocol.Schedule](c, "pq.jobs.schedule.tick", "")
	if shown.Counts.Fired < 1 || len(shown.Times) != 10 || shown.Item == nil || *shown.Item.Payload != "work" || *shown.Item.Priority != -3 {
		t.Errorf("it shows %+v", shown)
	}
	pushed := c.ask("pq.jobs.push", "forwarded", "PQ-Schedule", "tick", "PQ-Scheduled-At", "2027-01-01T00:00:00Z", "PQ-Priority", "-9")
	if strings.Contains(string(pushed.Data), "error") {
		t.Fatalf("a push of a forwarded item answers %s", pushed.Data)
	}
	if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != "forwarded" || m.Header.Get("PQ-Schedule") != "" {
		t.Errorf("a forwarded item has %v", m.Header)
	}
}

func TestScheduleVerbs(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, verb := range []string{"schedules", "schedule.s", "admin.schedule.s.pause", "admin.schedule.s.run", "admin.schedule.s.delete"} {
		c.refused(c.ask("pq.jobs."+verb, ""), 404, "unknown")
	}
	const far = `{"spec":"0 12 1 1 *","zone":"Europe/Berlin"}`
	for n := range 5 {
		object[protocol.Schedule](c, fmt.Sprintf("pq.jobs.admin.schedule.s%d", n), far)
	}
	c.refused(c.ask("pq.jobs.schedule.none", ""), 404, "unknown")
	soonest := object[protocol.Schedule](c, "pq.jobs.schedule.s0", "").Next
	object[protocol.Schedule](c, "pq.jobs.admin.schedule.s5", `{"spec":"@at 2099-01-01T00:00:00Z"}`)
	if q := object[protocol.Info](c, "pq.jobs.info", ""); q.Schedules != 6 || !q.NextSchedule.Equal(soonest) {
		t.Errorf("the queue has %d schedules, the next at %s, expected 6 and %s", q.Schedules, q.NextSchedule, soonest)
	}
	object[protocol.ScheduleNamed](c, "pq.jobs.admin.schedule.s5.delete", "")

	first := object[protocol.SchedulesPage](c, "pq.jobs.schedules", `{"limit":3}`)
	second := object[protocol.SchedulesPage](c, "pq.jobs.schedules", fmt.Sprintf(`{"limit":3,"after":%q}`, first.Next))
	if len(first.Schedules) != 3 || first.Next != "s2" || len(second.Schedules) != 2 ||
		second.Next != "" || second.Schedules[1].Name != "s4" || second.Schedules[1].Item != nil {
		t.Errorf("pages %+v, %+v", first, second)
	}

	if s := object[protocol.Schedule](c, "pq.jobs.admin.schedule.s0.pause", ""); !s.Paused || !s.Next.IsZero() {
		t.Errorf("paused: %+v", s)
	}
	if s := object[protocol.Schedule](c, "pq.jobs.admin.schedule.s0.resume", `{"from":"now"}`); s.Paused || s.Next.IsZero() {
		t.Errorf("resumed: %+v", s)
	}
	if s := object[protocol.Schedule](c, "pq.jobs.admin.schedule.s0", `{"start":"2030-05-05T00:00:00Z"}`); s.Next.Format(time.RFC3339) != "2031-01-01T11:00:00Z" {
		t.Errorf("with a start: %+v", s)
	}
	if s := object[protocol.Schedule](c, "pq.jobs.admin.schedule.s0", `{"start":null}`); s.Start != nil || s.Next.Year() > time.Now().Year()+1 {
		t.Errorf("without a start: %+v", s)
	}
	preview := object[protocol.ScheduleTimes](c, "pq.jobs.schedule.new", `{"spec":"@at 2099-01-01T00:00:00Z"}`)
	if len(preview.Times) != 1 || preview.Times[0].Year() != 2099 {
		t.Errorf("preview %+v", preview)
	}
	c.refused(c.ask("pq.jobs.schedule.new", ""), 404, "unknown")

	run := func(id string) (answer protocol.PushResponse) {
		m := c.ask("pq.jobs.admin.schedule.s0.run", "", "Nats-Msg-Id", id)
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	one, again := run("a"), run("a")
	if one.ID == "" || one.Duplicate || again.ID != one.ID || !again.Duplicate {
		t.Errorf("runs answer %+v and %+v", one, again)
	}
	if m := c.ask("pq.jobs.get."+one.ID, ""); m.Header.Get("PQ-Unique") != "" || m.Header.Get("PQ-Schedule") != "s0" {
		t.Errorf("the item has %v", m.Header)
	}

	if got := string(c.ask("pq.jobs.admin.schedule.s0.delete", "").Data); got != `{"queue":"jobs","name":"s0"}` {
		t.Errorf("delete answers %s", got)
	}
	c.refused(c.ask("pq.jobs.admin.schedule.s0.delete", ""), 404, "unknown")
	for n := range 100 {
		object[protocol.Schedule](c, fmt.Sprintf("pq.many.admin.schedule.s%d", n), `{"spec":"@every 1s","paused":true}`)
	}
	if q := object[protocol.Info](c, "pq.many.info", ""); q.Schedules != 100 || !q.NextSchedule.IsZero() {
		t.Errorf("of many schedules info says %d, the next at %s", q.Schedules, q.NextSchedule)
	}
	c.refused(c.ask("pq.many.admin.schedule.more", `{"spec":"@every 1s"}`), 429, "schedules")
}

// A time at which the queue is full is told, and fires when there is room.
func TestScheduleFullQueue(t *testing.T) {
	nightly.Only(t, "TestScheduleFullQueue of package fdbpq counts what a full queue misses, and TestScheduleMissed of package events tells it")
	t.Parallel()
	c := serve(t)
	events := c.hear("pq.jobs.event.schedule_missed")
	c.ask("pq.jobs.admin.config", `{"max_length":1}`)
	object[protocol.Schedule](c, "pq.jobs.admin.schedule.s", `{"spec":"@every 1s","overlap":"allow","missed":"one"}`)
	testenv.Await(t, "the schedule", func() bool { return object[protocol.Schedule](c, "pq.jobs.schedule.s", "").Full })
	testenv.Await(t, "the schedule", func() bool {
		c.ask("pq.jobs.pop.min", "")
		return object[protocol.Schedule](c, "pq.jobs.schedule.s", "").Counts.Missed > 0
	})
	var e protocol.ScheduleEvent
	if err := json.Unmarshal(c.next(events).Data, &e); err != nil {
		t.Fatal(err)
	}
	if e.Type != "io.pq.v1.event.schedule_missed" || e.Queue != "jobs" || e.Schedule != "s" || e.Count < 1 || e.Reason != "full" || e.From.After(e.To) {
		t.Errorf("event %+v", e)
	}
}

// The item of a schedule has the headers that a message may have.
func TestScheduleItemHeaders(t *testing.T) {
	t.Parallel()
	c := serve(t)
	make := func(lines int) *nats.Msg {
		body, err := json.Marshal(map[string]any{"spec": "@yearly", "item": map[string]any{"headers": map[string]any{"A": slices.Repeat([]string{"x"}, lines-1), "B": " y "}}})
		if err != nil {
			t.Fatal(err)
		}
		return c.ask("pq.jobs.admin.schedule.s", string(body))
	}
	c.refused(make(protocol.MaxHeaderLines+1), 413)
	if m := make(protocol.MaxHeaderLines); m.Header != nil {
		t.Fatalf("%v", m.Header)
	}
	c.push("pq.jobs.admin.schedule.s.run", "")
	if m := c.pop("pq.jobs.pop.min", ""); len(m.Header["A"]) != protocol.MaxHeaderLines-1 || m.Header.Get("B") != "y" {
		t.Errorf("it has %d A, and B %q", len(m.Header["A"]), m.Header.Get("B"))
	}
}

// A change is answered as done, whatever its answer has room for.
func TestScheduleAnswerWithoutRoom(t *testing.T) {
	t.Parallel()
	c := serveWithin(t, 50_000, bridge.Options{})
	made := object[protocol.Schedule](c, "pq.jobs.admin.schedule.s", `{"spec":"@yearly","item":{"payload":"`+strings.Repeat("\u2028", 15_000)+`"}}`)
	paused := object[protocol.Schedule](c, "pq.jobs.admin.schedule.s.pause", "")
	if made.Name != "s" || made.Item != nil || made.Next.IsZero() || !paused.Paused || paused.Item != nil {
		t.Errorf("made %+v, paused %+v", made, paused)
	}
}

// A schedule that has fired as often as it may says so.
func TestScheduleCountReached(t *testing.T) {
	t.Parallel()
	c := serve(t)
	object[protocol.Schedule](c, "pq.jobs.admin.schedule.s", `{"spec":"@every 1s","count":1}`)
	c.pop("pq.jobs.pop.min", "", "PQ-Wait", forever)
	for _, request := range [][2]string{{".resume", `{"from":"now"}`}, {"", `{"spec":"@daily"}`}} {
		m := c.refused(c.ask("pq.jobs.admin.schedule.s"+request[0], request[1]), 400)
		if text := m.Header.Get("Nats-Service-Error"); !strings.Contains(text, "count is 1, and it has fired 1 times") {
			t.Errorf("%s: %s", request, text)
		}
	}
}
