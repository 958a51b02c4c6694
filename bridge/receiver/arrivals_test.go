package receiver

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
)

// arrive has a message arrive as nats.go does.
func (a *arrivals) arrive(t *testing.T, subject string, size int) {
	t.Helper()
	select {
	case a.came <- &nats.Msg{Sub: new(nats.Subscription), Subject: subject, Data: make([]byte, size)}:
	default:
		t.Fatal("no room")
	}
}

// Messages are handled in the order of their arrival, and a wait returns when all are
// handled.
func TestArrivals(t *testing.T) {
	t.Parallel()
	const n = 3 * arrivalsKept
	var a arrivals
	var seen []string
	held := make(chan struct{})
	hold := sync.OnceFunc(func() { <-held })
	a.start(func(m *nats.Msg) {
		hold()
		seen = append(seen, m.Subject)
	}, slog.New(slog.DiscardHandler))
	defer a.stop()
	var want []string
	size := 0
	for i := range n {
		subject := strings.Repeat("x", i%7) + "."
		want = append(want, subject)
		a.arrive(t, subject, i%3)
		size += len(subject) + i%3
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.wait(late); err == nil {
		t.Error("nothing was looked at, and waiting for it was no error")
	}
	for messages, bytes := a.pending(); messages != n || bytes != size; messages, bytes = a.pending() {
		if messages > n || bytes > size {
			t.Fatalf("%d messages of %d bytes are pending, want %d of %d", messages, bytes, n, size)
		}
	}
	close(held)
	if err := a.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if messages, bytes := a.pending(); messages != 0 || bytes != 0 {
		t.Errorf("%d messages of %d bytes are pending", messages, bytes)
	}
	if strings.Join(seen, "") != strings.Join(want, "") {
		t.Error("looked at in another order, or not at all of them")
	}
}

// Messages beyond the bound are dropped, and that is logged once.
func TestArrivalsAreBounded(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	a := arrivals{log: slog.New(slog.NewTextHandler(&log, nil))}
	m := &nats.Msg{Sub: new(nats.Subscription), Data: make([]byte, pendingBytes/8)}
	for range 20 {
		a.add(m)
	}
	if messages, bytes := a.pending(); messages != 8 || bytes != pendingBytes || len(a.line) != 8 {
		t.Errorf("%d messages of %d bytes are pending and %d in line, room is for 8", messages, bytes, len(a.line))
	}
	a.bytes.Store(0)
	if a.add(m); len(a.line) != 9 {
		t.Errorf("%d messages in line, want 9: there is room again", len(a.line))
	}
	if n := strings.Count(log.String(), nats.ErrSlowConsumer.Error()); n != 1 {
		t.Errorf("said %d times that messages are dropped: %s", n, &log)
	}
}
