package bridge_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// While an item with a unique value lives, a push with it adds nothing, and does what
// PQ-On-Conflict says.
func TestUnique(t *testing.T) {
	t.Parallel()
	c := serve(t)
	first := c.push("pq.jobs.push.5", "first", "PQ-Unique", "doc", "X-Mine", "1")
	again := func(want int64, body string, header ...string) {
		t.Helper()
		p := c.push("pq.jobs.push.3", body, append([]string{"PQ-Unique", "doc"}, header...)...)
		if !p.Duplicate || p.ID != first.ID || p.Seq != first.Seq || p.Priority != want {
			t.Errorf("%v: %+v, expected the first item, %+v, with priority %d", header, p, first, want)
		}
	}
	again(5, "second")
	again(5, "second", "PQ-On-Conflict", "keep")
	if m := c.peekOne("jobs"); string(m.Data) != "first" {
		t.Errorf("kept: %s", m.Data)
	}
	again(5, "second", "PQ-On-Conflict", "replace", "X-Mine", "2", "PQ-Delay", "1h")
	if m := c.peekOne("jobs"); string(m.Data) != "second" || m.Header.Get("X-Mine") != "2" || m.Header.Get("PQ-Unique") != "" {
		t.Errorf("replaced: %s, %v", m.Data, m.Header)
	}
	again(3, "third", "PQ-On-Conflict", "raise")
	c.push("pq.jobs.push", "other", "PQ-Unique", "another doc")
	c.push("pq.mails.push", "other", "PQ-Unique", "doc")
	if info := c.info("jobs"); info.Ready != 2 {
		t.Errorf("%+v, expected two items", info)
	}
	c.pop("pq.jobs.pop.min", "")
	item := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	if string(item.Data) != "second" || item.Header.Get("PQ-Priority") != "3" {
		t.Errorf("%s, %v", item.Data, item.Header)
	}
	again(3, "fourth")
	c.refusedPush(c.ask("pq.jobs.push", "fourth", "PQ-Unique", "doc", "PQ-On-Conflict", "replace"), 409, "leased")
	c.accepted(c.raw(item.Reply, "+ACK"))
	if p := c.push("pq.jobs.push", "new", "PQ-Unique", "doc"); p.Duplicate {
		t.Errorf("after the end of the item: %+v", p)
	}
}

// peekOne peeks at the last item of a queue.
func (c *client) peekOne(queue string) *nats.Msg {
	c.Helper()
	return c.ask("pq."+queue+".peek.max", "")
}

// With PQ-Unique-Until the first lease ends the claim.
func TestUniqueUntilLeased(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.push("pq.jobs.push", "first", "PQ-Unique", "doc", "PQ-Unique-Until", "leased").ID
	get := c.ask("pq.jobs.get."+id, "")
	if get.Header.Get("PQ-Unique") != "doc" || get.Header.Get("PQ-Unique-Until") != "leased" {
		t.Errorf("%v", get.Header)
	}
	item := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	if p := c.push("pq.jobs.push", "news", "PQ-Unique", "doc"); p.Duplicate {
		t.Errorf("while it is leased: %+v", p)
	}
	if get := c.ask("pq.jobs.get."+id, ""); get.Header.Get("PQ-Unique") != "" {
		t.Errorf("%v", get.Header)
	}
	c.accepted(c.raw(item.Reply, "+ACK"))
	if p := c.push("pq.jobs.push", "more", "PQ-Unique", "doc"); !p.Duplicate {
		t.Errorf("after the first item has ended: %+v", p)
	}
}

// Lists, exports and imports keep unique values. An import is refused where another item
// has the value.
func TestUniqueTravels(t *testing.T) {
	t.Parallel()
	c := serve(t)
	value := strings.Repeat("é", 512)
	id := c.push("pq.jobs.push.2", "x", "PQ-Unique", value, "PQ-Unique-Until", "leased").ID
	page := strictly[protocol.Page](t, c.ask("pq.jobs.list", "").Data)
	if len(page.Items) != 1 || page.Items[0].Unique != value || page.Items[0].UniqueUntil != "leased" {
		t.Errorf("%+v", page)
	}
	back := []string{"PQ-Id", id, "PQ-Unique", value, "PQ-Unique-Until", "leased"}
	c.push("pq.other.push", "in its place", "PQ-Unique", value)
	c.refused(c.ask("pq.other.import", "x", back...), 409, "occupied")
	c.pop("pq.other.pop.min", "")
	c.push("pq.other.import", "x", back...)
	if p := c.push("pq.other.push", "again", "PQ-Unique", value); !p.Duplicate || p.ID != id {
		t.Errorf("%+v, expected the imported item", p)
	}
}

// The largest item with the longest unique value can be got, too.
func TestLargestUniqueItem(t *testing.T) {
	t.Parallel()
	c := serve(t)
	value := strings.Repeat("v", 1024)
	payload := strings.Repeat("x", int(c.MaxPayload()))
	m := c.ask("pq.jobs.push", payload[:len(payload)-2000], "PQ-Unique", value)
	c.refusedPush(m, 413, "")
	p := c.push("pq.jobs.push", payload[:len(payload)-2200], "PQ-Unique", value)
	if got := c.ask("pq.jobs.get."+p.ID, ""); got.Header.Get("PQ-Unique") != value || len(got.Data) != len(payload)-2200 {
		t.Errorf("%d bytes, a unique value of %d", len(got.Data), len(got.Header.Get("PQ-Unique")))
	}
}
