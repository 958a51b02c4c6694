package receiver

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
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
	a.arrive(t, "x", 0)
	want = append(want, "x")
	if err := a.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.marks) > 0 || slices.ContainsFunc(a.line[:cap(a.line)], func(m *nats.Msg) bool { return m != nil }) {
		t.Errorf("%d marks are kept, and messages that were handled", len(a.marks))
	}
	if strings.Join(seen, "") != strings.Join(want, "") {
		t.Error("looked at in another order, or not at all of them")
	}
}

// A mark stands behind the messages before it, and the memory of a long line is not kept.
func TestLine(t *testing.T) {
	t.Parallel()
	a := arrivals{marks: make(map[*nats.Msg]func())}
	mark := new(nats.Msg)
	for range 3 {
		a.add(&nats.Msg{Sub: new(nats.Subscription)})
	}
	a.add(mark)
	if line := a.next(make([]*nats.Msg, 0, arrivalsKept+1)); len(line) != 4 || line[3] != mark {
		t.Errorf("%d messages in line, the mark at %d", len(line), slices.Index(line, mark))
	}
	if n := cap(a.line); n > arrivalsKept {
		t.Errorf("memory of %d messages is kept", n)
	}
	a.add(mark)
	if a.next(make([]*nats.Msg, 0, arrivalsKept)); cap(a.line) != arrivalsKept {
		t.Errorf("memory of %d messages is used again, expected %d", cap(a.line), arrivalsKept)
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
	for want := range 2 { // as often as it begins
		if n := strings.Count(log.String(), nats.ErrSlowConsumer.Error()); n != want+1 {
			t.Errorf("said %d times that messages are dropped: %s", n, &log)
		}
		for range 20 {
			a.add(m)
		}
	}
}
