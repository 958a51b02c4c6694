package receiver_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
	"github.com/pqbridge/pqbridge/testenv"
)

// What the server has sent is handled before a pause, also what is still on its way.
func TestPauseWaitsForWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	s := start(t)
	const n = 3000
	for range n {
		s.publish("q.jobs.push", "x "+strings.Repeat("x", 1000))
	}
	if err := s.client.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	if got := len(s.seen(&s.handled)); got != n {
		t.Errorf("%d of %d messages were handled", got, n)
	}
}

// A receiver that cannot resume stays paused, also when its connection is up again.
func TestResumeFails(t *testing.T) {
	t.Parallel()
	s := start(t)
	if err := s.Pause(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	down, up := s.nc.StatusChanged(nats.RECONNECTING), s.nc.StatusChanged(nats.CONNECTED)
	clientUp := s.client.StatusChanged(nats.CONNECTED)
	s.server.Shutdown()
	<-down
	if err := s.Resume(0); err == nil {
		t.Error("resumed without a server")
	}
	s.server.Restart(t)
	<-up
	<-clientUp
	for _, subject := range []string{"q.jobs.push", "q.jobs.ack.here.1"} {
		if s.answered(subject) {
			t.Errorf("%s is answered after a resume that failed", subject)
		}
	}
	if n := s.nc.NumSubscriptions(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
	if err := s.Resume(0); err != nil {
		t.Fatal(err)
	}
	if !s.answered("q.jobs.push") || !s.answered("q.jobs.ack.here.1") {
		t.Error("not resumed")
	}
}

// A receiver that may not subscribe does not start, and leaves nothing behind.
func TestStartWithoutPermission(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Allow: []string{"q.*.ack.>"}}}}}
	})
	nc := srv.Connect(t, nats.UserInfo("u", "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	r := receiver.New(nc, receiver.Options{
		Fronts: []receiver.Subjects{{Requests: "q.>", Settlements: "q.*.ack.>", Signals: "q.*.ack.here.>"}},
		Group:  "q", Logger: slog.New(slog.DiscardHandler),
		Handlers: receiver.Handlers{Request: func(*nats.Msg) {}, Signal: func(*nats.Msg) {}, Refuse: func(*nats.Msg) {}},
	})
	if err := r.Start(); !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("error %v, expected that permissions are missing", err)
	}
	if n := nc.NumSubscriptions(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

// A flush whose time is over says so.
func TestFlush(t *testing.T) {
	t.Parallel()
	nc := testenv.NATS(t).Connect(t)
	if err := receiver.Flush(t.Context(), nc); err != nil {
		t.Error(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := receiver.Flush(over, nc); !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "flush: ") {
		t.Errorf("error %v", err)
	}
}
