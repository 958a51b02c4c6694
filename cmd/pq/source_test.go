package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// orders is a remote with a stream of three messages: a, the one that a test chooses, and c.
func orders(t *testing.T, second, prio string) func() map[string]bridge.Remote {
	t.Helper()
	dir := t.TempDir()
	s := testenv.NATS(t, func(o *server.Options) {
		o.JetStream, o.StoreDir, o.JetStreamMaxStore, o.MaxPayload = true, dir, 1<<30, 8<<20
	})
	js, err := jetstream.New(s.Connect(t), jetstream.WithDefaultTimeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.*"}}); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*nats.Msg{
		{Data: []byte("a"), Header: nats.Header{"Prio": {"1"}}},
		{Data: []byte(second), Header: nats.Header{"Prio": {prio}}},
		{Data: []byte("c"), Header: nats.Header{"Prio": {"2"}}},
	} {
		m.Subject = "orders.eu"
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	return func() map[string]bridge.Remote {
		return map[string]bridge.Remote{"hub": {
			Connect: func(o ...nats.Option) (*nats.Conn, error) { return nats.Connect(s.URL(), o...) },
			Read:    map[string][]string{"ORDERS": {"*"}},
		}}
	}
}

// A source that stands says which command has it go on, and that one does.
func TestSourceThatStands(t *testing.T) {
	t.Parallel()
	w := newTerminal(t, bridge.Options{Remotes: orders(t, strings.Repeat("x", 2<<20), "2")}) // too large for an item
	events, err := w.nc.SubscribeSync("pq.jobs.event.source_stopped")
	if err != nil {
		t.Fatal(err)
	}
	w.does(t, "source", "set", "jobs", "orders", "remote=hub", "stream=ORDERS", `map={"priority":{"header":"Prio"}}`)
	if _, err := events.NextMsg(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	shown := w.does(t, "source", "show", "jobs", "orders")
	for _, says := range []string{"state: stopped", "reason: poisoned: message 2", "since: 2", "done with: 1 of", "--from-seq <n>"} {
		if !strings.Contains(shown, says) {
			t.Errorf("it says\n%s\nexpected %q", shown, says)
		}
	}
	if text := w.does(t, "doctor", "jobs"); !strings.Contains(text, `jobs: source orders has stopped, poisoned: message 2`) {
		t.Errorf("doctor says\n%s", text)
	}
	way := regexp.MustCompile(`to go on: pq (source resume [^#]*--skip)`).FindStringSubmatch(shown)
	if way == nil {
		t.Fatalf("it says\n%s\nexpected how to pass over the message", shown)
	}
	w.does(t, strings.Fields(way[1])...)
	for _, want := range []string{"a", "c"} {
		if got := w.does(t, "pop", "jobs", "--wait", "1m"); strings.TrimSpace(got) != want {
			t.Errorf("popped %q, expected %s", got, want)
		}
	}
}
