package receiver

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
	for range 3 { // two lines take turns
		a.arrive(t, "y", 0)
		want = append(want, "y")
		if err := a.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.kept(t)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.marks) > 0 || slices.ContainsFunc(a.lines.common.messages[:cap(a.lines.common.messages)], func(m *nats.Msg) bool { return m != nil }) {
		t.Errorf("%d marks are kept, and messages that were handled", len(a.marks))
	}
	if strings.Join(seen, "") != strings.Join(want, "") {
		t.Error("looked at in another order, or not at all of them")
	}
}

// kept checks that the line keeps no message that was handled.
func (a *arrivals) kept(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.ContainsFunc(a.lines.common.messages[:cap(a.lines.common.messages)], func(m *nats.Msg) bool { return m != nil }) {
		t.Error("messages are kept that were handled")
	}
}

// Both goroutines end with the stop.
func TestArrivalsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // which waits for all its goroutines
		var a arrivals
		handled := 0
		a.start(func(*nats.Msg) { handled++ }, slog.New(slog.DiscardHandler))
		a.arrive(t, "x", 1)
		a.stop()
		a.arrive(t, "x", 1)
		synctest.Wait()
		if handled != 1 {
			t.Errorf("handled %d messages, 1 has arrived before the end", handled)
		}
	})
}

// Too many messages are an overload, and so are too many bytes.
func TestOverloaded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		messages, bytes int
		want            bool
	}{{shedAt, shedAtBytes, false}, {shedAt + 1, 0, true}, {0, shedAtBytes + 1, true}} {
		if overloaded(tc.messages, tc.bytes) != tc.want {
			t.Errorf("%d messages of %d bytes are an overload: %t", tc.messages, tc.bytes, !tc.want)
		}
	}
}

// A flush waits for two seconds, or for half of the time that is left.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for left, want := range map[time.Duration]time.Duration{0: flushPatience, time.Second: flushPatience, time.Minute: 30 * time.Second} {
			ctx, cancel := t.Context(), func() {}
			if left > 0 {
				ctx, cancel = context.WithTimeout(ctx, left)
			}
			if got := patience(ctx); got != want {
				t.Errorf("waits for %s when %s are left, expected %s", got, left, want)
			}
			cancel()
		}
	})
}

// A mark stands behind the messages before it, and the memory of a long line is not kept.
func TestLine(t *testing.T) {
	t.Parallel()
	last := new(nats.Msg)
	a := arrivals{marks: map[*nats.Msg]*mark{last: {}}}
	for range 3 {
		a.add(&nats.Msg{Sub: new(nats.Subscription)})
	}
	a.add(last)
	if line := a.next(make([]*nats.Msg, 0, arrivalsKept+1)); len(line) != 4 || line[3] != last {
		t.Errorf("%d messages in line, the mark at %d", len(line), slices.Index(line, last))
	}
	if n := cap(a.lines.common.messages); n > arrivalsKept {
		t.Errorf("memory of %d messages is kept", n)
	}
	a.add(last)
	if a.next(make([]*nats.Msg, 0, arrivalsKept)); cap(a.lines.common.messages) != arrivalsKept {
		t.Errorf("memory of %d messages is used again, expected %d", cap(a.lines.common.messages), arrivalsKept)
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
	if messages, bytes := a.pending(); messages != 8 || bytes != pendingBytes || len(a.lines.common.messages) != 8 {
		t.Errorf("%d messages of %d bytes are pending and %d in line, room is for 8", messages, bytes, len(a.lines.common.messages))
	}
	a.bytes.Store(0)
	if a.add(m); len(a.lines.common.messages) != 9 {
		t.Errorf("%d messages in line, want 9: there is room again", len(a.lines.common.messages))
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
