package receiver_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
	"github.com/pqbridge/pqbridge/testenv"
)

// journal is a log that may be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// lines counts the lines with a text.
func (j *journal) lines(with string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), with)
}

// logged has a station write its log to a journal.
func (j *journal) logged(s *station) { s.log = slog.NewTextHandler(j, nil) }

// full tells the receiver several times that its server is full. It has looked at all
// but the last two when that returns.
func (s *station) full(times int) {
	s.t.Helper()
	for range times {
		select {
		case s.serverFull <- struct{}{}:
		case <-testenv.Late():
			s.t.Fatal("the receiver does not look at the server's backlog")
		}
	}
}

// Load is shed as often as there is too much, and logged once a minute. What arrives
// about the same backlog sheds it once.
func TestShedsLoadAgain(t *testing.T) {
	t.Parallel()
	var log journal
	s := start(t, withBacklog, log.logged)
	for n := range 3 {
		s.publish("q.jobs.pop", "held")
		release := s.next(s.held)
		s.full(1)
		s.until("nobody subscribes", func() bool { return s.interest("q.jobs.pop") == 0 })
		s.full(1) // about the same
		release()
		s.until("requests are received again", func() bool { return s.interest("q.jobs.pop") == 1 })
		if requests, pushes := s.Sheddings(); requests != int64(n)+1 || pushes != int64(n)+1 {
			t.Fatalf("shed load %d times, of pushes %d times, expected %d", requests, pushes, n+1)
		}
	}
	receiver.ShedLoad(s.Receiver)
	if n := log.lines("shedding load"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// A receiver on standby sheds no load.
func TestShedsNoLoadOnStandby(t *testing.T) {
	t.Parallel()
	s := start(t)
	if err := s.Pause(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	receiver.ShedLoad(s.Receiver)
	if err := s.Resume(0); err != nil {
		t.Fatal(err)
	}
	if requests, _ := s.Sheddings(); requests != 0 || !s.answered("q.jobs.pop") {
		t.Errorf("shed load %d times", requests)
	}
}

// A receiver closes without waiting until load is shed.
func TestCloseWhileShedding(t *testing.T) {
	t.Parallel()
	s := start(t, withBacklog)
	s.publish("q.jobs.pop", "held")
	release := s.next(s.held)
	defer release()
	go receiver.ShedLoad(s.Receiver)
	s.until("requests are not received", func() bool { return !s.subscribed("q.>") })
	closed := make(chan struct{})
	go func() {
		s.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-testenv.Late():
		t.Fatal("the receiver does not close")
	}
}

// Each subscription that refuses pushes ends when too many wait there, which counts once
// and is logged once. All that have arrived are refused.
func TestShedsPushesOfEachKind(t *testing.T) {
	t.Parallel()
	var log journal
	s := start(t, log.logged, func(s *station) { s.held, s.refusal = make(chan chan struct{}), make(chan chan struct{}) })
	s.publish("q.jobs.pop", "held")
	release := s.next(s.held)
	go receiver.ShedLoad(s.Receiver)
	s.until("pushes are refused", func() bool { return !s.subscribed("q.>") })
	for _, sub := range receiver.Refusing(s.Receiver) {
		if messages, bytes, err := sub.PendingLimits(); err != nil || messages != -1 || bytes != 256<<20 {
			t.Errorf("%s holds %d messages of %d bytes, %v", sub.Subject, messages, bytes, err)
		}
	}
	const n = 33_500
	for i, subject := range []string{"q.jobs.push", "q.jobs.push.5"} {
		for range n {
			s.publish(subject, "x")
		}
		s.delivered()
		for range n {
			s.next(s.refusal)()
		}
		s.until("all are refused", func() bool { return len(s.seen(&s.refused)) == (i+1)*n })
	}
	if _, pushes := s.Sheddings(); pushes != 2 {
		t.Errorf("pushes were shed %d times, expected once for each subscription", pushes)
	}
	if n := log.lines("pushes arrive faster"); n != 1 {
		t.Errorf("logged %d times", n)
	}
	release()
	s.releaseAll(s.held)
}

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
