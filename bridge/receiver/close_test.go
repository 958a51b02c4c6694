package receiver_test

import (
	"context"
	"log/slog"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/receiver"
	"github.com/pqbridge/pqbridge/testenv"
)

// Without a drain, closing ends all subscriptions at once.
func TestClose(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Close()
	if err := s.nc.FlushTimeout(testenv.Patience); err != nil { // the server has read that they end
		t.Fatal(err)
	}
	for _, subject := range []string{"q.jobs.push", "q.jobs.ack.here.1", "q.jobs.ack.there.1"} {
		if s.answered(subject) {
			t.Errorf("%s is answered", subject)
		}
	}
}

// A receiver that was closed leaves no goroutine behind.
func TestCloseEndsGoroutines(t *testing.T) {
	t.Parallel()
	s := &station{t: t, server: testenv.NATS(t)}
	nc := s.server.Connect(t)
	label := pprof.Labels("of", t.Name())
	pprof.Do(t.Context(), label, func(context.Context) { // whatever it starts has the label
		r := receiver.New(nc, receiver.Options{
			Subjects: receiver.Subjects{Requests: "q.>", Settlements: "q.*.ack.>", Signals: "q.*.ack.here.>"},
			Group:    "q", Logger: slog.New(slog.DiscardHandler),
			Handlers: receiver.Handlers{Request: func(*nats.Msg) {}, Signal: func(*nats.Msg) {}, Refuse: func(*nats.Msg) {}},
		})
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		if !s.labelled(t.Name()) {
			t.Fatal("no goroutine has the label, so the test proves nothing")
		}
		r.Close()
	})
	s.until("all goroutines have ended", func() bool { return !s.labelled(t.Name()) })
}

// labelled reports whether a goroutine has a label.
func (s *station) labelled(label string) bool {
	s.t.Helper()
	var all strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		s.t.Fatal(err)
	}
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, `"of":"`+label+`"`) && strings.Contains(stack, "bridge/receiver.(*") {
			return true
		}
	}
	return false
}
