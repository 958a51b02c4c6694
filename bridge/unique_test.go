package bridge_test

import (
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

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
