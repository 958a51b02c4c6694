package receiver_test

import (
	"slices"
	"testing"
)

func withBacklog(s *station) {
	s.held, s.serverFull = make(chan chan struct{}), make(chan struct{}, 1)
}

// When the server holds too much, it refuses all requests until what it held has been
// handled, in order.
func TestBacklog(t *testing.T) {
	t.Parallel()
	s := start(t, withBacklog)
	subjects := []string{"q.jobs.push", "q.jobs.pop", "q.jobs.ack.here.1", "q.jobs.ack.there.1"}
	s.publish("q.jobs.push", "1")
	s.publish("q.jobs.ack.there.1", "2")
	release := s.next(s.held)
	s.delivered()
	s.serverFull <- struct{}{}
	for _, subject := range subjects {
		s.until("nobody subscribes to "+subject, func() bool { return s.interest(subject) == 0 })
	}
	for _, subject := range subjects {
		if s.answered(subject) {
			t.Errorf("%s is answered", subject)
		}
	}
	release()
	s.releaseAll(s.held)
	for _, subject := range subjects {
		s.until(subject+" is answered again", func() bool { return s.answered(subject) })
	}
	if got := s.seen(&s.handled); len(got) < 2 || !slices.Equal(got[:2], []string{"1", "2"}) {
		t.Errorf("handled %v", got)
	}
	if requests, pushes := s.Sheddings(); requests != 1 || pushes != 1 {
		t.Errorf("shed load %d times, of pushes %d times", requests, pushes)
	}
}

// The subscriptions that refuse pushes end as well when the server holds too much.
func TestBacklogOfRefusedPushes(t *testing.T) {
	t.Parallel()
	s := start(t, withBacklog)
	_, release := s.overload()
	s.full(4) // the second finds nothing to end, and has been looked at
	s.until("nobody refuses pushes", func() bool { return !s.answered("q.jobs.push") })
	if requests, pushes := s.Sheddings(); requests != 1 || pushes != 1 {
		t.Errorf("shed load %d times, of pushes %d times", requests, pushes)
	}
	release()
	s.releaseAll(s.held)
	s.until("pushes are received again", func() bool { return s.answered("q.jobs.push") })
}

// A receiver that ends its subscriptions because the server holds too much can drain.
func TestDrainWithBacklog(t *testing.T) {
	t.Parallel()
	s := start(t, withBacklog)
	s.publish("q.jobs.push", "1")
	release := s.next(s.held)
	s.serverFull <- struct{}{}
	s.until("nobody subscribes", func() bool { return s.interest("q.jobs.push") == 0 })
	drained := make(chan error, 1)
	go func() { drained <- s.DrainRequests(t.Context()) }()
	release()
	s.releaseAll(s.held)
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	if err := s.DrainSettlements(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"q.jobs.push", "q.jobs.ack.here.1"} {
		if s.answered(subject) {
			t.Errorf("%s is answered after the drain", subject)
		}
	}
}

// Signals that have arrived are handled before their subscription ends.
func TestBacklogLosesNoSignals(t *testing.T) {
	t.Parallel()
	s := start(t, withBacklog, func(s *station) { s.held, s.signal = nil, make(chan chan struct{}) })
	for range 100 {
		s.publish("q.jobs.ack.here.1", "1")
	}
	release := s.next(s.signal)
	s.delivered()
	s.serverFull <- struct{}{}
	s.until("load is shed", func() bool { requests, _ := s.Sheddings(); return requests == 1 })
	s.delivered()
	release()
	s.releaseAll(s.signal)
	s.until("all signals are handled", func() bool { return len(s.seen(&s.signals)) == 100 })
}
