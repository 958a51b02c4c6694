package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/testenv"
)

// follow runs pq events until the test ends.
func (w *terminal) follow(t *testing.T, args ...string) (out *written, ended chan int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	out, ended = newWritten(), make(chan int, 1)
	go func() { ended <- run(ctx, append([]string{"events"}, args...), w.env, strings.NewReader(""), out, out) }()
	out.await(t, "listening; Ctrl-C ends it\n")
	return out, ended
}

// die pushes an item and terminates it.
func (w *terminal) die(t *testing.T, queue, reason string) {
	t.Helper()
	c, err := client.New(w.nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Queue(queue).Push(t.Context(), nil, client.Priority(7)); err != nil {
		t.Fatal(err)
	}
	i, err := c.Queue(queue).Pop(t.Context(), client.Min, client.Lease(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := i.Terminate(t.Context(), reason); err != nil {
		t.Fatal(err)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	all, _ := w.follow(t)
	one, ended := w.follow(t, "jobs", "--type", "dead,expired", "--count", "2")
	other, _ := w.follow(t, "mail")
	none, _ := w.follow(t, "--type", "evicted")
	w.die(t, "jobs", "no way")
	all.await(t, "priority 7  deliveries 1  no way  → jobs-dead\n")
	one.await(t, "  no way  → jobs-dead\n")
	w.die(t, "mail", "nobody lives there")
	all.await(t, "nobody lives there")
	other.await(t, "  dead        mail  ")

	w.pq(t, "config", "jobs", "max_length=1", "overflow=evict")
	w.pq(t, "push", "jobs", "a", "b")
	none.await(t, "evicted     jobs")
	w.pq(t, "config", "jobs", "overflow=refuse")
	if err := w.nc.Publish("pq.jobs.push.1", nil); err != nil {
		t.Fatal(err)
	}
	all.await(t, "  error       jobs  pushes lost: 1  queue is full: its max_length is 1 (429)\n")
	w.pq(t, "purge", "jobs", "--force")
	w.die(t, "jobs", "again")
	one.await(t, "again")
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d after --count 2", code)
	}
	if text := other.text.String(); strings.Contains(text, "jobs") {
		t.Errorf("events of another queue: %s", text)
	}
}

// Events of a time without a connection are lost, and it says so; then it goes on.
func TestEventsSurviveRestart(t *testing.T) {
	t.Parallel()
	b := testenv.Bridge(t, bridge.Options{})
	w := &terminal{nc: b.NATS.Connect(t), env: []string{"HOME=" + t.TempDir(), "NATS_URL=" + b.NATS.URL()}}
	out, _ := w.follow(t)
	b.NATS.Shutdown()
	out.await(t, "pq: the NATS server is away: events until it is back are lost\n")
	b.NATS.Restart(t)
	nc := b.NATS.Connect(t)
	// Whether pq is back already only an event can tell.
	event := []byte(`{"type":"io.pq.v1.event.active","node":"a","epoch":3}`)
	for back := false; !back; {
		if err := nc.Publish("pq._sys.event.active", event); err != nil {
			t.Fatal(err)
		}
		select {
		case <-out.more:
			out.mu.Lock()
			back = strings.Contains(out.text.String(), "active      a is active, epoch 3\n")
			out.mu.Unlock()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// What an event holds does nothing to the terminal, and with --json is one line.
func TestHostileEvents(t *testing.T) {
	t.Parallel()
	event := "{\"type\":\"io.pq.v1.event.dead\\u001b[2J\",\n\"time\":\"2026-03-01T12:00:00Z\",\"queue\":\"\\u202ejobs\",\"reason\":\"\\u001b[31mred\\n\\u0007\"}"
	for _, one := range []struct {
		json       bool
		data, want string
	}{
		{false, event, `dead\x1b[2J    \u202ejobs    priority 0  deliveries 0  \x1b[31mred\n\a`},
		{true, event, `"reason":"\u001b[31mred\n\u0007"}`},
		{false, "{\x1b[2J", `an event on pq.\x1b.event.dead that cannot be read`},
		{true, "{\x1b[2J", `an event on`},
	} {
		var out bytes.Buffer
		s := session.New(t.Context(), []string{"TZ=UTC"}, strings.NewReader(""), &out, &out)
		s.Global.JSON = one.json
		if err := printEvent(s, &nats.Msg{Subject: "pq.\x1b.event.dead", Data: []byte(one.data)}); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); !strings.Contains(text, one.want) || strings.Count(text, "\n") != 1 || strings.ContainsAny(text, "\x1b\a\u202e") {
			t.Errorf("%q, expected %q", text, one.want)
		}
	}
}
