package stores_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// Leases and delays granted right after an hour of downtime have their full length.
func TestGrantsAfterDowntime(t *testing.T) {
	p := testenv.Daemon(t)
	pqd.Away(t, p, time.Hour)
	grantsLast(t, asking(t, p.Connect(t)))
}

// asking returns a function that sends a request with headers, names and values
// by turns, and returns the answer.
func asking(t *testing.T, nc *nats.Conn) func(subject, body string, headers ...string) *nats.Msg {
	return func(subject, body string, headers ...string) *nats.Msg {
		t.Helper()
		return pqd.Request(t, nc, subject, body, headers...)
	}
}

// grantsLast grants for half an hour, and checks four seconds later that the grants still
// hold.
func grantsLast(t *testing.T, ask func(subject, body string, headers ...string) *nats.Msg) {
	t.Helper()
	ask("pq.mortal.push", "mortal", "PQ-TTL", "30m")
	ask("pq.later.push", "later", "PQ-Delay", "30m")
	ask("pq.leased.push", "leased")
	item := ask("pq.leased.pop.min", "", "PQ-Lease", "30m")
	// An item that is due in 4 s shows that this much time has passed.
	ask("pq.mark.push", "mark", "PQ-Delay", "4s")
	if mark := ask("pq.mark.pop.min", "", "PQ-Wait", "110s"); string(mark.Data) != "mark" {
		t.Fatalf("what was due in 4s did not come: %v", mark.Header)
	}
	if reply := ask("pq.mortal.pop.min", ""); string(reply.Data) != "mortal" {
		t.Errorf("an item with a TTL of 30 minutes is gone: %v", reply.Header)
	}
	if reply := ask("pq.later.pop.min", ""); reply.Header.Get("PQ-Reason") != "delayed" {
		t.Errorf("an item delayed for 30 minutes: %q, %v", reply.Data, reply.Header)
	}
	if reply := ask(item.Reply, "+WPI"); reply.Header.Get("Status") != "" {
		t.Errorf("a lease of 30 minutes is over: %v", reply.Header)
	}
}
