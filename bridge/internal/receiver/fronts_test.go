package receiver_test

import (
	"slices"
	"testing"

	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
)

func withRemote(s *station) { s.remote = true }

// Each front goes on standby, and comes back, without the other one.
func TestFrontsPauseAlone(t *testing.T) {
	t.Parallel()
	s := start(t, withRemote)
	subjects := []string{"q.jobs.pop", "far.q.jobs.pop"}
	for front := range subjects {
		if err := s.Pause(t.Context(), front); err != nil {
			t.Fatal(err)
		}
		for i, subject := range subjects {
			if got := s.answered(subject); got == (i == front) {
				t.Errorf("front %d is on standby, and %s is answered: %t", front, subject, got)
			}
		}
		receiver.ShedLoad(s.Receiver) // which subscribes to neither more nor less
		if s.answered(subjects[front]) || !s.answered(subjects[1-front]) {
			t.Errorf("front %d is on standby: shedding load changed which front serves", front)
		}
		if err := s.Resume(front); err != nil {
			t.Fatal(err)
		}
		for _, subject := range subjects {
			if !s.answered(subject) {
				t.Errorf("%s is not answered after standby of front %d", subject, front)
			}
		}
	}
}

// A front that is paused before the start begins on standby.
func TestFrontBeginsOnStandby(t *testing.T) {
	t.Parallel()
	s := start(t, withRemote, func(s *station) { s.begin = 1 })
	if !s.answered("q.jobs.pop") || s.answered("far.q.jobs.pop") {
		t.Error("the wrong front is on standby")
	}
	if err := s.Resume(1); err != nil || !s.answered("far.q.jobs.pop") {
		t.Errorf("the front does not come back: %v", err)
	}
}

// While load is shed, neither front receives requests, and pushes to both are refused.
func TestFrontsShedTogether(t *testing.T) {
	t.Parallel()
	s := start(t, withRemote, withBacklog)
	s.publish("far.q.jobs.pop", "held")
	release := s.next(s.held)
	shed := make(chan struct{})
	go func() {
		receiver.ShedLoad(s.Receiver)
		close(shed)
	}()
	s.until("requests are not received", func() bool { return !s.subscribed("q.>") && !s.subscribed("far.q.>") })
	s.publish("far.q.jobs.push", "refused far")
	s.publish("q.jobs.push", "refused here")
	s.until("pushes are refused", func() bool { return len(s.seen(&s.refused)) == 2 })
	release()
	s.releaseAll(s.held)
	<-shed
	if !s.answered("q.jobs.pop") || !s.answered("far.q.jobs.pop") {
		t.Error("requests are not received again")
	}
}

// Messages to both fronts are handled in the order in which they arrive.
func TestOrderAcrossFronts(t *testing.T) {
	t.Parallel()
	s := start(t, withRemote)
	var want []string
	for i := range 200 {
		subject, body := "q.jobs.push", string(rune('a'+i%26))
		if i%3 == 0 {
			subject = "far." + subject
		}
		want = append(want, body)
		s.publish(subject, body)
	}
	s.until("all are handled", func() bool { return len(s.seen(&s.handled)) == len(want) })
	if got := s.seen(&s.handled); !slices.Equal(got, want) {
		t.Errorf("handled in the order %q", got)
	}
}

// Drained is drained under both prefixes.
func TestFrontsDrain(t *testing.T) {
	t.Parallel()
	s := start(t, withRemote)
	if err := s.DrainRequests(t.Context()); err != nil {
		t.Fatal(err)
	}
	for subject, settles := range map[string]bool{"q.jobs.pop": false, "far.q.jobs.pop": false, "q.jobs.ack.here.1": true, "far.q.jobs.ack.here.1": true} {
		if got := s.answered(subject); got != settles {
			t.Errorf("requests have ended, and %s is answered: %t", subject, got)
		}
	}
	if err := s.DrainSettlements(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.answered("far.q.jobs.ack.here.1") || s.answered("q.jobs.ack.here.1") {
		t.Error("settlements have not ended")
	}
}
