package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// What a link holds is shown as held, and doctor asks for the link.
func TestLinkThatHolds(t *testing.T) {
	t.Parallel()
	w := newTerminal(t, bridge.Options{})
	w.does(t, "link", "set", "orders", "hub", "to=abc")
	w.does(t, "push", "orders", "a")
	w.does(t, "push", "orders", "b")
	if text := w.does(t, "info", "orders"); strings.Contains(text, "Held") {
		t.Errorf("nothing is held:\n%s", text)
	}
	m, err := w.nc.RequestMsg(&nats.Msg{Subject: "pq.orders.link.hub", Data: []byte(`{"taker":"abc","max":1}`)}, testenv.Patience())
	if err != nil || m.Header.Get("PQ-Bundle") != "1" {
		t.Fatal(m, err)
	}
	for command, says := range map[string]string{
		"info orders":                "Held by links: 1 ",
		"list orders --state leased": " held link:hub",
	} {
		if text := strings.Join(strings.Fields(w.does(t, strings.Fields(command)...)), " "); !strings.Contains(text, says) {
			t.Errorf("pq %s says\n%s\nexpected %q", command, text, says)
		}
	}
}
