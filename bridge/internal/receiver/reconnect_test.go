package receiver_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
	"github.com/pqbridge/pqbridge/testenv"
)

// cut loses the receiver's connection, which stays away until restored is called.
func (s *station) cut() (restored func()) {
	s.t.Helper()
	down, up := s.nc.StatusChanged(nats.RECONNECTING), s.nc.StatusChanged(nats.CONNECTED)
	id, err := s.nc.GetClientID()
	if err == nil {
		err = s.server.Server().DisconnectClientByID(id)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.await(down)
	return func() {
		s.t.Helper()
		if err := s.nc.ForceReconnect(); err != nil {
			s.t.Fatal(err)
		}
		s.await(up)
	}
}

func (s *station) await(status <-chan nats.Status) {
	s.t.Helper()
	select {
	case <-status:
	case <-testenv.Late():
		s.t.Fatal("the connection did not change")
	}
}

// staysAway has a connection that is lost stay away until a test wants it back.
func staysAway(s *station) {
	s.connect = []nats.Option{nats.ReconnectWait(time.Hour), nats.MaxReconnects(-1)}
}

// interest is how many subscriptions the server has for a subject.
func (s *station) interest(subject string) int {
	return s.server.Server().GlobalAccount().Interest(subject)
}

// A subscription that ends while the connection is away does not come back with it: the
// server would send requests to a subscription that nobody reads.
func TestPauseWithoutConnection(t *testing.T) {
	t.Parallel()
	s := start(t, staysAway)
	restored := s.cut()
	if err := s.Pause(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	restored()
	subjects := []string{"q.jobs.push", "q.jobs.ack.here.1", "q.jobs.ack.there.1"}
	for _, subject := range subjects {
		if n := s.interest(subject); n > 0 || s.answered(subject) {
			t.Errorf("%s: %d subscriptions during a pause", subject, n)
		}
	}
	if err := s.Resume(0); err != nil {
		t.Fatal(err)
	}
	for _, subject := range subjects {
		if !s.answered(subject) {
			t.Errorf("%s is not answered after a pause", subject)
		}
	}
}

// A receiver whose connection is lost while it sheds load receives all requests again
// when both are over, and nobody else does.
func TestShedsLoadWithoutConnection(t *testing.T) {
	t.Parallel()
	s := start(t, staysAway, func(s *station) { s.held = make(chan chan struct{}) })
	_, release := s.backlog()
	restored := s.cut()
	s.shed(release)()
	s.releaseAll(s.held)
	restored()
	for _, subject := range []string{"q.jobs.pop", "q.jobs.push", "q.jobs.push.5"} {
		s.until(subject+" has one subscription", func() bool { return s.interest(subject) == 1 })
	}
	for range 20 {
		if !s.answered("q.jobs.pop") {
			t.Fatal("a request is not answered")
		}
	}
}

// The same when the connection is lost and comes back while load is shed.
func TestConnectionComesBackWhileShedding(t *testing.T) {
	t.Parallel()
	for name, shed := range map[string]func(*station){
		"load":    func(s *station) { receiver.ShedLoad(s.Receiver) },
		"backlog": func(s *station) { s.serverFull <- struct{}{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, staysAway, withBacklog)
			s.publish("q.jobs.pop", "held")
			release := s.next(s.held)
			go shed(s)
			s.until("load is shed", func() bool { requests, _ := s.Sheddings(); return requests == 1 })
			s.cut()()
			release()
			s.releaseAll(s.held)
			for _, subject := range []string{"q.jobs.pop", "q.jobs.push"} {
				s.until(subject+" has one subscription", func() bool { return s.interest(subject) == 1 })
			}
			for range 20 {
				if !s.answered("q.jobs.pop") {
					t.Fatal("a request is not answered")
				}
			}
		})
	}
}

// Signals that have arrived are handled in a pause without a connection, too.
func TestPauseHandlesSignalsWithoutConnection(t *testing.T) {
	t.Parallel()
	s := start(t, staysAway, func(s *station) { s.signal = make(chan chan struct{}) })
	for range 2 {
		s.publish("q.jobs.ack.here.1", "1")
	}
	release := s.next(s.signal)
	s.delivered()
	s.cut()
	paused := make(chan error, 1)
	go func() { paused <- s.Pause(context.Background(), 0) }()
	s.until("the pause has begun", func() bool { return s.nc.NumSubscriptions() < 3 })
	release()
	s.releaseAll(s.signal)
	if err := <-paused; err != nil {
		t.Fatal(err)
	}
	if n := len(s.seen(&s.signals)); n != 2 {
		t.Errorf("%d of 2 signals were handled", n)
	}
}

// A connection that is lost and comes back while a subscription drains brings no
// subscription that nobody reads, whether the receiver or nats.go forgets it first.
func TestConnectionComesBackWhileDraining(t *testing.T) {
	t.Parallel()
	for _, itself := range []bool{true, false} {
		t.Run(fmt.Sprintf("forgotten by the receiver %t", itself), func(t *testing.T) {
			t.Parallel()
			s := start(t, staysAway, func(s *station) { s.signal = make(chan chan struct{}) })
			for range 2 {
				s.publish("q.jobs.ack.here.1", "1")
			}
			release, signals := s.next(s.signal), receiver.Signals(s.Receiver)
			endOther := s.busy()
			s.delivered()
			paused := make(chan error, 1)
			go func() { paused <- s.Pause(context.Background(), 0) }()
			s.until("the subscription drains", signals.IsDraining)
			s.cut()()
			if itself {
				endOther()
			}
			release()
			s.releaseAll(s.signal)
			if !itself {
				s.until("nats.go has forgotten the subscription", func() bool { return !signals.IsValid() })
				endOther()
			}
			if err := <-paused; err != nil {
				t.Fatal(err)
			}
			s.subscriptions("q.jobs.ack.here.1", 0)
			if n := len(s.seen(&s.signals)); n != 2 {
				t.Errorf("%d of 2 signals were handled", n)
			}
			if err := s.Resume(0); err != nil {
				t.Fatal(err)
			}
			if !s.answered("q.jobs.ack.here.1") || !s.answered("q.jobs.push") {
				t.Error("a request is not answered after a pause")
			}
		})
	}
}

// busy has the receiver's connection handle a message of another subscription until the
// returned function is called.
func (s *station) busy() (end func()) {
	s.t.Helper()
	handled, begun := make(chan struct{}), make(chan struct{})
	_, err := s.nc.Subscribe("busy", func(*nats.Msg) {
		close(begun)
		<-handled
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.delivered()
	s.publish("busy", "")
	<-begun
	end = sync.OnceFunc(func() { close(handled) })
	s.t.Cleanup(end)
	return end
}

// subscriptions returns when the server has so many subscriptions for a subject, after the
// receiver has said all it has to. The subscriptions of earlier connections end a moment later.
func (s *station) subscriptions(subject string, want int) {
	s.t.Helper()
	s.until("the receiver is connected", s.nc.IsConnected)
	s.delivered()
	s.until(fmt.Sprintf("%s has %d subscriptions", subject, want), func() bool { return s.interest(subject) == want })
}

// The same for pushes that are refused while load is shed.
func TestConnectionComesBackWhilePushesAreRefused(t *testing.T) {
	t.Parallel()
	for _, itself := range []bool{true, false} {
		t.Run(fmt.Sprintf("forgotten by the receiver %t", itself), func(t *testing.T) {
			t.Parallel()
			s := start(t, staysAway, withBacklog, func(s *station) { s.refusal = make(chan chan struct{}) })
			s.publish("q.jobs.pop", "held")
			release := s.next(s.held)
			shed := make(chan struct{})
			go func() {
				defer close(shed)
				receiver.ShedLoad(s.Receiver)
			}()
			s.until("load is shed", func() bool { requests, _ := s.Sheddings(); return requests == 1 })
			for range 2 {
				s.publish("q.jobs.push", "refused")
			}
			refuse, refusing := s.next(s.refusal), receiver.Refusing(s.Receiver)
			s.delivered()
			each := func(has func(*nats.Subscription) bool) func() bool {
				return func() bool {
					return !slices.ContainsFunc(refusing, func(sub *nats.Subscription) bool { return sub.IsValid() && !has(sub) })
				}
			}
			if !itself {
				s.serverFull <- struct{}{} // they drain while requests wait
				s.until("the subscriptions drain", each((*nats.Subscription).IsDraining))
				s.cut()()
				refuse()
				s.releaseAll(s.refusal)
				s.until("nats.go has forgotten the subscriptions", each(func(*nats.Subscription) bool { return false }))
			}
			release()
			s.releaseAll(s.held)
			if itself {
				s.until("the subscriptions drain", each((*nats.Subscription).IsDraining))
				s.cut()()
				refuse()
				s.releaseAll(s.refusal)
			}
			<-shed
			s.subscriptions("q.jobs.push", 1)
			for range 20 {
				if !s.answered("q.jobs.push") {
					t.Fatal("a push is not answered")
				}
			}
			if n := len(s.seen(&s.refused)); n != 2 {
				t.Errorf("%d of 2 pushes were refused", n)
			}
		})
	}
}

// A connection that is lost while a pause waits for what has arrived ends the wait alone.
func TestConnectionIsLostWhileDraining(t *testing.T) {
	t.Parallel()
	w := &wire{}
	s := start(t, staysAway, w.wired)
	w.hold()
	paused := make(chan error, 1)
	go func() { paused <- s.Pause(context.Background(), 0) }()
	s.until("the receiver and nats.go wait for the server", func() bool { return w.pingsBehind("UNSUB") == 2 })
	if err := w.lose(); err != nil {
		t.Fatal(err)
	}
	if err := <-paused; err != nil {
		t.Errorf("a pause whose connection was lost: %v", err)
	}
}
