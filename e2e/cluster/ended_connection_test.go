package cluster_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// When the server ends the connection of the active pqd for an error, another one serves, and the first follows it
// on another connection. TestConnectionEndedByTheServer has a pqd alone.
func TestActiveConnectionEndedByTheServer(t *testing.T) {
	t.Parallel()
	s := pqd.NewStreamStore(t, "64M", func(o *server.Options) { o.MaxControlLine = 900 })
	nodes, _, _ := s.Pair(t)
	s.Ask(t, "pq.jobs.push", "kept")
	inbox := s.Nc.NewInbox() + "."
	for times := range 2 {
		nodes.Active(t)
		// The line of the answer, with the subject that settles the item, is longer than 900 bytes.
		if err := s.Nc.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: inbox + strings.Repeat("x", 850-len(inbox)), Header: nats.Header{"PQ-Lease": {"1s"}}}); err != nil {
			t.Fatal(err)
		}
		testenv.Await(t, "the server ends the connection", func() bool { return logged(nodes, "the NATS server ended a connection for an error") == times+1 })
		testenv.Await(t, "the item is there again", func() bool {
			m, err := s.Nc.Request("pq.jobs.peek.min", nil, testenv.Attempt())
			return err == nil && string(m.Data) == "kept"
		})
		for _, p := range nodes.All {
			testenv.Await(t, "each pqd is ready", func() bool {
				code, _ := pqd.Get(t, p.HTTP+"/readyz")
				return code == 200
			})
		}
		testenv.Await(t, "one has another connection", func() bool { return logged(nodes, "made another connection to NATS") == times+1 })
	}
	if m := s.Ask(t, "pq.jobs.pop.min", ""); string(m.Data) != "kept" {
		t.Errorf("popped %q, %v", m.Data, m.Header)
	}
	if status := s.Status(t); len(status.Members) != len(nodes.All) {
		t.Errorf("%+v", status)
	}
	for _, p := range nodes.All {
		p.Stop(t)
	}
}

// logged is how often the nodes have logged a text.
func logged(nodes *testenv.Nodes, text string) (n int) {
	for _, p := range nodes.All {
		n += strings.Count(p.Log(), text)
	}
	return n
}
