package named

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// A schedule goes on with what is left of its count, and in its step, whether it runs or is paused.
func TestNextSchedule(t *testing.T) {
	t.Parallel()
	last, next, start := time.Unix(1000, 0), time.Unix(2000, 0), time.Unix(500, 0)
	fired := protocol.ScheduleCount{Fired: 3, Missed: 9}
	for name, c := range map[string]struct {
		read  client.Schedule
		start time.Time // zero: none
		count int64
	}{
		"it runs":         {client.Schedule{Spec: "@every 7h", Last: last, Next: next, Counts: fired}, next, 0},
		"it is paused":    {client.Schedule{Spec: "@every 7h", Last: last, Paused: true}, last, 0},
		"it never fired":  {client.Schedule{Spec: "@every 7h", Paused: true}, time.Time{}, 0},
		"it has a start":  {client.Schedule{Spec: "@every 7h", Start: &start, Next: next}, start, 0},
		"it has a clock":  {client.Schedule{Spec: "@daily", Last: last, Next: next}, time.Time{}, 0},
		"it has a count":  {client.Schedule{Spec: "@daily", Count: 5, Counts: fired}, time.Time{}, 2},
		"it is beyond it": {client.Schedule{Spec: "@daily", Count: 2, Counts: fired}, time.Time{}, 1},
	} {
		got := NextSchedule(&c.read, true)
		var at time.Time
		if got.Start != nil {
			at = *got.Start
		}
		if !at.Equal(c.start) || *got.Count != c.count || !*got.Paused {
			t.Errorf("%s: it begins at %s, fires %d times, and is paused: %t; expected %s and %d", name, at, *got.Count, *got.Paused, c.start, c.count)
		}
	}
}

// A source that copies goes on behind what it has read; the others, and one that has read nothing, begin as they did.
func TestNextSource(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		read client.Source
		want string
	}{
		"it copies":       {client.Source{Mode: "copy", Start: []byte(`"new"`), Seq: 7}, `{"seq":8}`},
		"it read nothing": {client.Source{Mode: "copy", Start: []byte(`"new"`)}, `"new"`},
		"it takes":        {client.Source{Mode: "take", Start: []byte(`"first"`), Seq: 7}, `"first"`},
		"it is of a link": {client.Source{Queue: "edge7.orders", Link: "hub", Seq: 7}, ""},
	} {
		if got := NextSource(&c.read, true); string(got.Start) != c.want {
			t.Errorf("%s: it begins at %s, expected %s", name, got.Start, c.want)
		}
	}
}
