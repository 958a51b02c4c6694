package receiver_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
	"github.com/pqbridge/pqbridge/testenv"
)

// Subscriptions begin with settlements and end with them: the one to signals matches
// settlements too, and answers none.
func TestOrderOfSubscriptions(t *testing.T) {
	t.Parallel()
	ends := []string{"q.>", "q.*.ack.here.>", "q.*.ack.>"}
	for name, end := range map[string]func(*station) error{
		"pause": func(s *station) error { return s.Pause(t.Context(), 0) },
		"drain": func(s *station) error {
			return errors.Join(s.DrainRequests(t.Context()), s.DrainSettlements(t.Context()))
		},
		"backlog": func(s *station) error {
			s.serverFull <- struct{}{}
			s.until("load is shed", func() bool { requests, _ := s.Sheddings(); return requests == 1 })
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w wire
			s := start(t, w.wired, func(s *station) { s.serverFull = make(chan struct{}, 1) })
			if got, want := w.begins(), []string{"q.*.ack.>", "q.*.ack.here.>", "q.>"}; !slices.Equal(got, want) {
				t.Errorf("subscribed to %q, expected %q", got, want)
			}
			if err := end(s); err != nil {
				t.Fatal(err)
			}
			if got := w.ends(); !slices.Equal(got, ends) {
				t.Errorf("unsubscribed from %q, expected %q", got, ends)
			}
		})
	}
}

// What the server has sent before a subscription ended is handled, however late it comes.
func TestHandlesWhatComesLate(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*station){
		"pause": func(s *station) {
			if err := s.Pause(context.Background(), 0); err != nil {
				s.t.Error(err)
			}
		},
		"backlog":       func(s *station) { s.serverFull <- struct{}{} },
		"load shedding": func(s *station) { receiver.ShedLoad(s.Receiver) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w wire
			s := start(t, w.wired, func(s *station) { s.serverFull = make(chan struct{}, 1) })
			release := w.hold()
			defer release()
			s.publish("q.jobs.push", "late")
			if err := s.client.FlushTimeout(testenv.Patience()); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				end(s)
				close(ended)
			}()
			s.until("requests are not received", func() bool { return !s.subscribed("q.>") })
			if name == "load shedding" && !s.subscribed("q.*.push") {
				t.Error("nobody refuses pushes when the subscription to requests has ended")
			}
			release()
			<-ended
			s.until("the late message is handled", func() bool { return slices.Contains(s.seen(&s.handled), "late") })
		})
	}
}

// A subscription has ended when its end returns, and one that has ended before is no
// error.
func TestEndsOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	before := s.nc.NumSubscriptions()
	if err := s.DrainRequests(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.nc.NumSubscriptions(); n != before-1 {
		t.Errorf("%d subscriptions, expected %d", n, before-1)
	}
	if err := s.Resume(0); err != nil {
		t.Fatal(err)
	}
	if err := receiver.Requests(s.Receiver).Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(t.Context(), 0); err != nil {
		t.Error(err)
	}
}
