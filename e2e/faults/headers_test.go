package faults_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// Messages with very many headers are refused unread. So the bridge keeps up with its
// connection, and the server does not cut it off.
func TestManyHeaders(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	nc := p.Connect(t)
	pqd.Push(t, nc, "jobs", 1, "kept")
	const n = 20
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	header := nats.Header{"H": make([]string, 120_000)}
	for range n {
		if err := nc.PublishMsg(&nats.Msg{Subject: "pq.jobs.push", Reply: inbox, Header: header}); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		m, err := answers.NextMsg(testenv.Patience())
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get("Nats-Service-Error-Code") != "413" || !strings.Contains(m.Header.Get("Nats-Service-Error"), "1000") {
			t.Fatalf("answer %q, %v: expected 413", m.Data, m.Header)
		}
	}
	if got := pqd.Pop(t, nc, "jobs", "min"); got != "kept" {
		t.Errorf("popped %q", got)
	}
	p.Stop(t)
	if log := p.Log(); strings.Contains(log, "disconnected") {
		t.Errorf("the bridge was cut off: %s", log)
	}
}
