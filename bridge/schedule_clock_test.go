package bridge_test

import (
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// A wall clock that stays an hour ahead becomes the clock of schedules, and an event says so.
func TestScheduleClockIsSet(t *testing.T) {
	t.Parallel()
	var passed, ahead atomic.Int64
	started := time.Now()
	c := serveStore(t, testenv.OpenStore(t, faulty(t), fdbpq.Options{
		Elapsed: func() time.Duration { return time.Since(started) + time.Duration(passed.Load()) },
		Wall:    func() time.Time { return time.Now().Add(time.Duration(passed.Load() + ahead.Load())) },
	}))
	events := c.hear("pq._sys.event.clock")
	object[protocol.Schedule](c, "pq.jobs.admin.schedule.s", `{"spec":"@every 1s"}`)
	c.ask("pq.jobs.pop.min", "", "PQ-Wait", forever)
	ahead.Store(int64(time.Hour))
	testenv.Await(t, "the event", func() bool {
		passed.Add(int64(61 * time.Second)) // a step within a look at both clocks begins the minute anew
		return len(events.came) > 0
	})
	var e protocol.ClockEvent
	if err := json.Unmarshal(c.next(events).Data, &e); err != nil {
		t.Fatal(err)
	}
	by, err := time.ParseDuration(e.By)
	if err != nil || e.Type != "io.pq.v1.event.clock" || (by-time.Hour).Abs() > 5*time.Second || e.Time.IsZero() {
		t.Errorf("event %+v, %v", e, err)
	}
}
