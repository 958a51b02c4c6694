package receiver_test

import (
	"context"
	"log/slog"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
	"github.com/pqbridge/pqbridge/testenv"
)

// Without a drain, closing ends all subscriptions at once.
func TestClose(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.Close()
	if err := s.nc.FlushTimeout(testenv.Patience()); err != nil { // the server has read that they end
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
	r := receiver.New(nc, receiver.Options{
		Fronts: []receiver.Subjects{{Requests: "q.>", Settlements: "q.*.ack.>", Signals: "q.*.ack.here.>"}},
		Group:  "q", Logger: slog.New(slog.DiscardHandler),
		Handlers: receiver.Handlers{Request: func(*nats.Msg) {}, Signal: func(*nats.Msg) {}, Refuse: func(*nats.Msg) {}},
	})
	pprof.Do(t.Context(), pprof.Labels("of", t.Name()), func(context.Context) { // whatever it starts has the label
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
	})
	s.until("goroutines have begun", func() bool { return s.labelled() })
	r.Close()
	s.until("all goroutines have ended", func() bool { return !s.labelled() })
}

// labelled reports whether a goroutine has the test's label.
func (s *station) labelled() bool {
	s.t.Helper()
	var all strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		s.t.Fatal(err)
	}
	return strings.Contains(all.String(), `"of":"`+s.t.Name()+`"`)
}
