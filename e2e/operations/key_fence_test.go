package operations_test

import (
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"
)

// What a client sees of the fences of a key grows while pqd is killed, stopped and started,
// and the queue is purged and deleted.
func TestKeyFencesOutliveEverything(t *testing.T) {
	t.Parallel()
	m := meter(t)
	last := int64(0)
	leases := func(what string) *nats.Msg {
		t.Helper()
		m.ask("pq.jobs.admin.config", `{"key_order":true}`)
		m.pushed("pq.jobs.push", what, "PQ-Key", "ann")
		item := m.lease("jobs", "1h")
		fence, err := strconv.ParseInt(item.Header.Get("PQ-Key-Fence"), 10, 64)
		if err != nil || fence <= last {
			t.Fatalf("%s: the fence is %q after %d, expected a higher one (%v)", what, item.Header.Get("PQ-Key-Fence"), last, err)
		}
		last = fence
		return item
	}
	settled := func(item *nats.Msg, word string) {
		t.Helper()
		if answer := m.ask(item.Header.Get("PQ-Ack"), word); answer.Header.Get("Status") != "" {
			t.Fatalf("%s: %v", word, answer.Header)
		}
	}
	settled(leases("first"), "+ACK")
	for _, end := range []struct {
		what string
		end  func(testing.TB)
	}{{"killed", m.process.Kill}, {"stopped", m.process.Stop}} {
		m.nc.Close()
		end.end(t)
		m.process.Start(t)
		m.nc = m.process.Connect(t)
		settled(leases(end.what), "+ACK")
	}
	item := leases("given back")
	settled(item, "-NAK")
	leases("beside the one that came back")
	m.ask("pq.jobs.admin.purge", "")
	leases("purged")
	m.ask("pq.jobs.admin.delete", "")
	leases("deleted")
	m.ask("pq.jobs.admin.delete", "")
	m.nc.Close()
	m.process.Kill(t)
	m.process.Start(t)
	m.nc = m.process.Connect(t)
	leases("deleted and killed")
}
