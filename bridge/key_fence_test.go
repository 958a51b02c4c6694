package bridge_test

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// keyFence reads the fence of its key that an item has, 0 if it has none.
func (c *client) keyFence(m *nats.Msg) int64 {
	c.Helper()
	text := m.Header.Get("PQ-Key-Fence")
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		c.Errorf("PQ-Key-Fence is %q", text)
	}
	return n
}

// The fence of a key grows from lease to lease, whichever item they are of, and every answer
// about a lease has the fence of that lease.
func TestKeyFence(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"key_order":true,"lease":"1m"}`)
	last := int64(0)
	grows := func(m *nats.Msg) *nats.Msg {
		t.Helper()
		fence := c.keyFence(m)
		if fence <= last {
			t.Fatalf("%q has the fence %d after %d", m.Data, fence, last)
		}
		last = fence
		return m
	}
	for range 3 {
		c.key("ann", "ann")
	}
	again := []string{"Nats-Msg-Id", "pop 1"}
	first := grows(c.pop("pq.jobs.pop.min", "", again...))
	if repeated := c.pop("pq.jobs.pop.min", "", again...); c.keyFence(repeated) != last || repeated.Header.Get("PQ-Id") != first.Header.Get("PQ-Id") {
		t.Errorf("the repeated pop has the fence %d, the first one %d", c.keyFence(repeated), last)
	}
	if got := c.ask("pq.jobs.get."+first.Header.Get("PQ-Id"), ""); c.keyFence(got) != last {
		t.Errorf("get shows the fence %d, expected %d", c.keyFence(got), last)
	}
	var page protocol.Page
	if page = object[protocol.Page](c, "pq.jobs.list", `{"state":"leased"}`); len(page.Items) != 1 || page.Items[0].KeyFence != last {
		t.Errorf("the list is %+v, expected the fence %d", page, last)
	}
	c.accepted(c.raw(first.Reply, "-NAK"))
	second := grows(c.pop("pq.jobs.pop.min", ""))
	third := grows(c.raw(second.Reply, "+NXT"))
	c.accepted(c.raw(third.Reply, "+ACK"))
	bundle := c.frames(c.ask("pq.jobs.pop.min", "", "PQ-Bundle", "5"))
	if len(bundle) != 1 {
		t.Fatalf("the bundle has %d items", len(bundle))
	}
	c.accepted(c.raw(grows(bundle[0]).Header.Get("PQ-Ack"), "+ACK"))
}

// An imported item brings along the fence of its key.
func TestImportKeyFence(t *testing.T) {
	t.Parallel()
	from, to := serve(t), serve(t)
	from.configure(`{"key_order":true,"lease":"1m"}`)
	id := from.key("ann", "x")
	from.pop("pq.jobs.pop.min", "")
	item := from.ask("pq.jobs.get."+id, "")
	ahead := from.keyFence(item) + 1e9 // from a store whose time is ahead
	item.Header.Set("PQ-Key-Fence", strconv.FormatInt(ahead, 10))
	to.configure(`{"key_order":true,"lease":"1m"}`)
	to.acknowledged(to.askMsg(&nats.Msg{Subject: "pq.jobs.import", Header: maps.Clone(item.Header), Data: item.Data}))
	if got := to.keyFence(to.ask("pq.jobs.get."+id, "")); got != ahead {
		t.Errorf("the imported item has the fence %d, expected %d", got, ahead)
	}
	for _, bad := range []struct{ key, fence, want string }{
		{"ann", "-1", "expected 0 or more"}, {"ann", "x", "PQ-Key-Fence"}, {"ann", "4611686018427387904", "allowed are 0 to"}, {"", "5", "has no key"},
	} {
		header := []string{"PQ-Id", id, "PQ-Key-Fence", bad.fence}
		if bad.key != "" {
			header = append(header, "PQ-Key", bad.key)
		}
		if m := to.refused(to.ask("pq.jobs.import", "z", header...), 400); !strings.Contains(m.Header.Get("Nats-Service-Error"), bad.want) {
			t.Errorf("key %q, fence %s: %q, expected %q in it", bad.key, bad.fence, m.Header.Get("Nats-Service-Error"), bad.want)
		}
	}
}
