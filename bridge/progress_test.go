package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
)

// says checks what an answer says of the progress of its item.
func (c *client) says(m *nats.Msg, text string) {
	c.Helper()
	if text == "" {
		if m.Header["PQ-Progress"] != nil || m.Header["PQ-Progress-At"] != nil {
			c.Errorf("%v: expected no progress", m.Header)
		}
		return
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get("PQ-Progress-At"))
	if got := m.Header["PQ-Progress"]; !slices.Equal(got, []string{text}) || err != nil || time.Since(at) > time.Hour {
		c.Errorf("%v: expected the progress %.40q", m.Header, text)
	}
}

// Whoever has or sees an item learns how far its holders have come. An item whose holders say nothing has no header more.
func TestProgress(t *testing.T) {
	t.Parallel()
	c := serve(t)
	lease := []string{"PQ-Lease", "1h"}
	id := c.push("pq.jobs.push.1", "x").ID
	c.push("pq.jobs.push.2", "y")
	first := c.pop("pq.jobs.pop.min", "", lease...)
	c.says(first, "")
	m := c.raw(first.Reply, `+WPI {"page": 3}`)
	if c.accepted(m); m.Header.Get("PQ-Lease-Expires") == "" || m.Header["PQ-Note"] != nil {
		t.Errorf("the answer is %v", m.Header)
	}
	c.says(c.ask("pq.jobs.get."+id, ""), `{"page": 3}`)
	c.accepted(c.raw(first.Reply, "+WPI"))
	c.says(c.ask("pq.jobs.get."+id, ""), `{"page": 3}`)
	ack := first.Header.Get("PQ-Ack")
	lines := c.raw(ack, ack+" +WPI  half way, zu spät  ", "PQ-Bundle", "1")
	if !strings.HasPrefix(string(lines.Data), "+OK 20") || strings.Contains(string(lines.Data), "dropped") {
		t.Errorf("in a line: %q", lines.Data)
	}
	c.says(c.ask("pq.jobs.get."+id, ""), "half way, zu spät")
	for body, shown := range map[string]bool{`{"state":"leased"}`: false, `{"state":"leased","progress":false}`: false, `{"state":"leased","progress":true}`: true} {
		page := strictly[protocol.Page](t, c.ask("pq.jobs.list", body).Data)
		if len(page.Items) != 1 || (page.Items[0].Progress == "half way, zu spät") != shown || page.Items[0].ProgressAt.IsZero() == shown {
			t.Errorf("the list %s has %+v", body, page.Items)
		}
	}
	long := strings.Repeat("p", 4096)
	if results := c.settleFrames(frame("+WPI "+long, "PQ-Ack", ack)); len(results) != 1 || !strings.HasPrefix(results[0], "+OK 20") {
		t.Errorf("in a frame: %q", results)
	}
	c.accepted(c.raw(first.Reply, "-NAK"))
	both := c.popBundle("pq.jobs.pop.min", "", append(lease, "PQ-Bundle", "2")...)
	c.says(both[0], long)
	c.says(both[1], "")
	c.accepted(c.raw(both[0].Header.Get("PQ-Ack"), "+TERM enough"))
	dead := c.pop("pq.jobs-dead.pop.min", "")
	c.says(dead, long)
	c.push("pq.other.import", "x", "PQ-Id", id, "PQ-Progress", "as exported", "PQ-Progress-At", "2026-01-02T03:04:05Z")
	if m := c.pop("pq.other.peek.min", ""); m.Header.Get("PQ-Progress") != "as exported" || m.Header.Get("PQ-Progress-At") != "2026-01-02T03:04:05Z" {
		t.Errorf("imported: %v", m.Header)
	}
	c.push("pq.fresh.push", "x", "PQ-Progress", "of another item")
	c.says(c.pop("pq.fresh.peek.min", ""), "")

	last := both[1].Header.Get("PQ-Ack")
	for _, wrong := range []string{"a\tb", "a\x00", "\xff", "\u0085x", "x\v", strings.Repeat("x", 4097)} {
		c.refused(c.raw(last, "+WPI "+wrong), 400)
		if got := c.raw(last, last+" +WPI "+wrong, "PQ-Bundle", "1"); len(wrong) < 100 && !strings.HasPrefix(string(got.Data), "-ERR 400") {
			t.Errorf("%.20q in a line: %q", wrong, got.Data)
		}
	}
	c.refused(c.ask("pq.jobs.list", `{"progress":1}`), 400)
	c.refused(c.ask("pq.other.import", "x", "PQ-Id", id, "PQ-Progress", "a\tb"), 400)
}

// Who asks for the result of an item that goes on learns how far it is, if its push has asked for a result.
func TestProgressOfAnAwaitedItem(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.push("pq.jobs.push", "x", "PQ-Result-TTL", "1h").ID
	m := c.refused(c.ask("pq.jobs.result."+id, ""), 404, "pending")
	c.says(m, "")
	item := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	c.accepted(c.raw(item.Reply, "+WPI 3 of 9, zu sp\u00e4t"))
	c.says(c.refused(c.ask("pq.jobs.result."+id, ""), 404, "pending"), "3 of 9, zu sp\u00e4t")
	c.accepted(c.raw(item.Reply, "-NAK"))
	c.says(c.refused(c.ask("pq.jobs.result."+id, ""), 404, "pending"), "3 of 9, zu sp\u00e4t")
	c.says(c.refused(c.ask("pq.jobs.result."+id, "", "PQ-Wait", "1ms"), 408), "")
	unasked := c.push("pq.jobs.push", "x").ID
	c.says(c.refused(c.ask("pq.jobs.result."+unasked, ""), 409, "unkept"), "")
}

// A server without room for it has the answer without it.
func TestProgressOfAnAwaitedItemWithoutRoom(t *testing.T) {
	t.Parallel()
	c := serveWithin(t, 4<<10, bridge.Options{})
	id := c.push("pq.jobs.push", "x", "PQ-Result-TTL", "1h").ID
	item := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	c.accepted(c.raw(item.Reply, "+WPI "+strings.Repeat("p", 3000)))
	c.says(c.refused(c.ask("pq.jobs.result."+id, ""), 404, "pending"), "")
}

// A queue that is full extends a lease, and says that it has dropped what its holder said.
func TestProgressIsDropped(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"max_bytes":2000}`)
	c.push("pq.jobs.push", strings.Repeat("x", 900))
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	ack := m.Header.Get("PQ-Ack")
	c.accepted(c.raw(m.Reply, "+WPI "+strings.Repeat("a", 1200)))
	longer := strings.Repeat("b", 1201)
	if got := c.raw(m.Reply, "+WPI "+longer); got.Header.Get("PQ-Note") != "dropped" || got.Header.Get("PQ-Lease-Expires") == "" {
		t.Errorf("the answer is %v", got.Header)
	}
	if got := string(c.raw(ack, ack+" +WPI "+longer, "PQ-Bundle", "1").Data); !strings.HasPrefix(got, "+OK 20") || !strings.HasSuffix(got, "Z dropped") {
		t.Errorf("in a line: %q", got)
	}
	c.says(c.ask("pq.jobs.get."+m.Header.Get("PQ-Id"), ""), strings.Repeat("a", 1200))
}

// What a holder says keeps no item from its next holder: an item that leaves no room for it comes without, and a bundle has fewer items.
func TestProgressLeavesTheItemItsRoom(t *testing.T) {
	t.Parallel()
	const most = 16 << 10
	c := serveWithin(t, most, bridge.Options{})
	for i, size := range []int{most - 1100, 2000, 2000, 2000, 2000} {
		c.push(fmt.Sprint("pq.jobs.push.", i), strings.Repeat("x", size))
		m := c.pop("pq.jobs.pop.max", "", "PQ-Lease", "1h")
		c.accepted(c.raw(m.Reply, "+WPI "+strings.Repeat("p", 4000)))
		c.accepted(c.raw(m.Reply, "-NAK"))
	}
	large := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	c.says(large, "")
	if len(large.Data) != most-1100 {
		t.Errorf("popped %d bytes", len(large.Data))
	}
	c.says(c.ask("pq.jobs.get."+large.Header.Get("PQ-Id"), ""), "")
	for left := 4; left > 0; {
		items := c.popBundle("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Bundle", "4")
		for _, item := range items {
			c.says(item, strings.Repeat("p", 4000))
		}
		if left -= len(items); len(items) == 0 || len(items) > 2 {
			t.Fatalf("a bundle has %d items of 6,000 bytes", len(items))
		}
	}
}
