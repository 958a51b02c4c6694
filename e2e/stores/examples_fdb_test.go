//go:build fdb

package stores_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/testenv"
)

// The outbox: an item that a program pushed in its own transaction reaches a client that
// waits at pqd, exactly once.
func TestOutbox(t *testing.T) {
	outbox := testenv.Build(t, "examples/outbox")
	cluster := fdbtest.New(t, 1)
	p := testenv.Daemon(t, "PQ_STORE=fdb:"+cluster.File)
	nc := p.Connect(t)
	inbox := nc.NewInbox()
	replies, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	pop := nats.NewMsg("pq.shipping.pop.min")
	pop.Reply = inbox
	pop.Header.Set("PQ-Wait", testenv.Patience().String())
	if err := nc.PublishMsg(pop); err != nil {
		t.Fatal(err)
	}
	if out := pqd.Run(t, outbox, cluster.File, "4711", "three chairs"); !strings.HasPrefix(out, "order 4711: three chairs, to be shipped as ") {
		t.Errorf("outbox printed %s", out)
	}
	job, err := replies.NextMsg(testenv.Patience())
	if err != nil || string(job.Data) != "4711: three chairs" {
		t.Fatalf("popped %v: %v", job, err)
	}
	// The same order is refused the second time, and so is its job.
	if out, err := p.Command(t, outbox, cluster.File, "4711", "four chairs").CombinedOutput(); err == nil || !strings.Contains(string(out), "order 4711: ordered already") {
		t.Errorf("ordered twice: %s: %v", out, err)
	}
	pqd.ExpectEmpty(t, nc, "shipping")
	p.Stop(t)
}
