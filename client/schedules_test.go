package client_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

func TestSchedules(t *testing.T) {
	t.Parallel()
	w := start(t)
	ctx := t.Context()
	_, err := w.queue.Schedule(ctx, "s")
	fails(t, err, client.ErrNotFound, 404, client.ReasonUnknown)
	payload, zone := "report", "Europe/Berlin"
	at := time.Date(2099, 1, 31, 9, 0, 0, 0, time.UTC)
	for _, name := range []string{"a", "b"} {
		s, err := w.queue.SetSchedule(ctx, name, client.ScheduleChange{Spec: new("0 12 1 1 *"), Zone: &zone,
			Start: &at, Item: &client.ScheduleItem{Payload: &payload, Headers: map[string][]string{"A": {"b"}}}})
		if err != nil || s.Name != name || s.Next.Format(time.RFC3339) != "2100-01-01T11:00:00Z" {
			t.Fatalf("made %+v, %v", s, err)
		}
	}
	var names string
	for s, err := range w.queue.Schedules(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		names += s.Name
	}
	if names != "ab" {
		t.Errorf("schedules %s", names)
	}
	if s, err := w.queue.SetSchedule(ctx, "a", client.ScheduleChange{Drop: []string{"start"}}); err != nil || s.Start != nil || s.Next.Year() > 2099 {
		t.Errorf("without a start %+v, %v", s, err)
	}
	if s, err := w.queue.Schedule(ctx, "a"); err != nil || len(s.Times) != 10 || *s.Item.Payload != payload || s.Item.Headers["A"][0] != "b" {
		t.Errorf("shown %+v, %v", s, err)
	}
	if times, err := w.queue.ScheduleTimes(ctx, "new", client.ScheduleChange{Spec: new("@at 2099-01-31T09:00:00Z")}); err != nil || len(times) != 1 || !times[0].Equal(at) {
		t.Errorf("previewed %v, %v", times, err)
	}
	if s, err := w.queue.PauseSchedule(ctx, "a"); err != nil || !s.Paused {
		t.Errorf("paused %+v, %v", s, err)
	}
	for _, fromNow := range []bool{false, true} {
		if s, err := w.queue.ResumeSchedule(ctx, "a", fromNow); err != nil || s.Paused || s.Next.IsZero() {
			t.Errorf("resumed %+v, %v", s, err)
		}
	}
	first, err := w.queue.RunSchedule(ctx, "a", "id")
	if err != nil || first.Duplicate {
		t.Fatalf("run %+v, %v", first, err)
	}
	if again, err := w.queue.RunSchedule(ctx, "a", "id"); err != nil || !again.Duplicate || again.ID != first.ID {
		t.Errorf("run again %+v, %v", again, err)
	}
	if item := w.pop(t, client.Min); string(item.Payload) != payload || item.Schedule != "a" || item.ScheduledAt.IsZero() {
		t.Errorf("item %+v", item)
	}
	if err := w.queue.DeleteSchedule(ctx, "a"); err != nil {
		t.Error(err)
	}
	fails(t, w.queue.DeleteSchedule(ctx, "a"), client.ErrNotFound, 404, client.ReasonUnknown)
}

// A run whose answer was lost is repeated by its id, and pushes one item.
func TestScheduleRunWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := start(t)
	if _, err := w.queue.SetSchedule(t.Context(), "s", client.ScheduleChange{Spec: new("0 12 1 1 *"), Overlap: new("allow")}); err != nil {
		t.Fatal(err)
	}
	c, lost := w.lossy(t)
	run, err := c.Queue("jobs").RunSchedule(t.Context(), "s", "id")
	if err != nil {
		t.Fatal(err)
	}
	if verb := <-lost; verb != "admin" {
		t.Errorf("the answer to %s was lost", verb)
	}
	if item := w.pop(t, client.Min); item.ID != run.ID || item.Pending != 0 {
		t.Errorf("popped %+v, expected %s alone", item, run.ID)
	}
}
