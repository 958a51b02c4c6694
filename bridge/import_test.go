package bridge_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/internal/storecheck"
)

// An answer of get can be sent to import at another store, where get then answers the
// same.
func TestImport(t *testing.T) {
	t.Parallel()
	from, to := serve(t), serve(t)
	first := from.push("pq.jobs.push.5", "first", "Color", "blue", "Color", "red", "Size", "big")
	from.push("pq.jobs.push.5", "second", "PQ-TTL", "1h")
	from.push("pq.jobs.push", "delayed", "PQ-Delay", "1h", "PQ-TTL", "2h")
	moved := from.push("pq.jobs.push.5", "moved")
	from.ask("pq.jobs.move."+moved.ID+".-7", "")
	given := from.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h") // the moved one
	from.accepted(from.raw(given.Reply, "-NAK"))
	from.push("pq.jobs.push.-9", "poison")
	from.accepted(from.raw(from.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h").Reply, "+TERM it is poison"))
	from.push("pq.jobs.push.-9", "held")
	from.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")

	for queue, count := range map[string]int{"jobs": 5, "jobs-dead": 1} {
		var ids []string
		for _, state := range []string{"leased", "delayed", "ready"} {
			for _, i := range object[struct{ Items []struct{ ID string } }](from, "pq."+queue+".list", `{"state":"`+state+`"}`).Items {
				ids = append(ids, i.ID)
			}
		}
		if len(ids) != count {
			t.Fatalf("%s has %d items, expected %d", queue, len(ids), count)
		}
		for _, id := range ids {
			item := from.ask("pq."+queue+".get."+id, `{"attempts":true}`)
			for _, duplicate := range []bool{false, true} {
				ack := to.acknowledged(to.askMsg(&nats.Msg{Subject: "pq." + queue + ".import", Header: maps.Clone(item.Header), Data: item.Data}))
				if ack.ID != id || ack.Duplicate != duplicate || ack.Stream != queue {
					t.Errorf("%s %s: imported as %+v, expected duplicate %v", queue, id, ack, duplicate)
				}
			}
			got, want := to.ask("pq."+queue+".get."+id, `{"attempts":true}`), item.Header
			if want.Get("PQ-State") == "leased" {
				want.Set("PQ-State", "ready")
				want.Del("PQ-Lease-Expires")
				want.Set("PQ-Interruptions", "1") // its holder did not say how it ended
			}
			for _, header := range []nats.Header{want, got.Header} {
				header.Del("PQ-Num-Pending")
				for key := range header {
					if key == "PQ-Not-Before" || key == "PQ-Expires" { // clocks of two stores
						at, err := time.Parse(time.RFC3339Nano, header.Get(key))
						if err != nil {
							t.Error(err)
						}
						header.Set(key, at.Round(10*time.Minute).String())
					}
				}
				for _, values := range header {
					slices.Sort(values)
				}
			}
			if string(got.Data) != string(item.Data) || !maps.EqualFunc(got.Header, want, slices.Equal) {
				t.Errorf("%s: got %q %v, expected %q %v", id, got.Data, got.Header, item.Data, want)
			}
		}
	}

	// The same id with another content is refused, and so is a message that is no item.
	for _, tc := range []struct {
		payload string
		header  []string
		code    int
		text    string
	}{
		{"another", []string{"PQ-Id", first.ID}, 409, "occupied"},
		{"first", []string{"PQ-Id", first.ID}, 409, "occupied"},
		{"first", []string{"PQ-Id", first.ID, "Color", "blue", "Color", "red", "Size", "small"}, 409, "occupied"},
		{"x", nil, 400, "without PQ-Id"},
		{"x", []string{"PQ-Unique", ""}, 400, "PQ-Unique is empty"},
		{"x", []string{"PQ-Id", "nonsense"}, 400, "not an item id"},
		{"x", []string{"PQ-Id", first.ID, "PQ-Id", first.ID}, 400, "occurs 2 times"},
		{"x", []string{"PQ-Id", first.ID, "PQ-Priority", "high"}, 400, "integer"},
		{"x", []string{"PQ-Id", first.ID, "PQ-Deliveries", "-1"}, 400, "expected 0 or more"},
		{"x", []string{"PQ-Id", first.ID, "PQ-Expires", "later"}, 400, "expected a time"},
		{"x", []string{"PQ-Id", first.ID, "PQ-Not-Before", "2999-01-01T00:00:00Z"}, 400, "out of bounds"},
		{"x", []string{"PQ-Id", first.ID, "PQ-TTL", "1h"}, 400, `"PQ-TTL" is none of an import`},
		{"x", []string{"PQ-Id", first.ID, "Nats-Msg-Id", "1"}, 400, "Nats-Msg-Id"},
		{"x", []string{"PQ-Id", first.ID, "PQ-Dead-Reason", strings.Repeat("x", 600)}, 400, "allowed are 512"},
		{"x", []string{"PQ-Id", first.ID, "PQ-Origin", "_x"}, 400, `PQ-Origin: queue name "_x": expected 1 to 64`},
		{"x", []string{"PQ-Id", first.ID, "PQ-Origin", "a b"}, 400, `PQ-Origin: queue name "a b": expected 1 to 64`},
		{"x", []string{"PQ-Id", first.ID, "PQ-Unique-Until", "leased"}, 400, "PQ-Unique-Until without PQ-Unique: expected the value"},
	} {
		m := to.refused(to.ask("pq.jobs.import", tc.payload, tc.header...), tc.code)
		if text := m.Header.Get("Nats-Service-Error"); !strings.Contains(text, tc.text) {
			t.Errorf("import of %q with %v: %q, expected %q in it", tc.payload, tc.header, text, tc.text)
		}
	}
	if m := to.ask("pq.jobs.import", "another", "PQ-Id", first.ID); m.Header.Get("PQ-Reason") != "occupied" {
		t.Errorf("an occupied place has the reason %q", m.Header.Get("PQ-Reason"))
	}

	// Later pushes stand behind imported items, and all items can be popped.
	after := to.push("pq.jobs.push.5", "after")
	if after.Seq <= first.Seq {
		t.Errorf("a push got seq %d, behind %d", after.Seq, first.Seq)
	}
	var order []string
	for range 5 {
		order = append(order, string(to.pop("pq.jobs.pop.min", "").Data))
	}
	if want := []string{"held", "moved", "first", "second", "after"}; !slices.Equal(order, want) {
		t.Errorf("popped %v, expected %v", order, want)
	}
}

// Many imports in a row respect the limits, and a refused one does not affect the others.
func TestImportInARow(t *testing.T) {
	t.Parallel()
	from, to := serve(t), serve(t, bridge.Options{Limits: bridge.Limits{BatchRequests: 7}})
	const n = 100
	for range n {
		from.push("pq.jobs.push", "x")
	}
	page := object[struct {
		Items []struct{ ID string }
	}](from, "pq.jobs.list", `{"limit":1000}`)
	answers := to.listen()
	for i, item := range page.Items {
		id := item.ID
		if i == 50 {
			id = page.Items[49].ID // twice, and with another content
		}
		m := &nats.Msg{Subject: "pq.jobs.import", Reply: answers.inbox, Data: []byte{byte(i)}, Header: h("PQ-Id", id)}
		if err := to.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	refused := 0
	for range page.Items {
		m := to.next(answers)
		var ack pubAck
		if json.Unmarshal(m.Data, &ack) != nil {
			to.refused(m, 409, "occupied")
			refused++
		}
	}
	if ready := to.info("jobs").Ready; refused != 1 || ready != n-1 {
		t.Errorf("%d were refused and %d are there, expected 1 and %d", refused, ready, n-1)
	}
	problems, err := storecheck.Check(t.Context(), to.env.Store)
	if err != nil || len(problems) > 0 {
		t.Errorf("check: %v %q", err, problems)
	}
}

// An item without an id is known by its unique value: it gets the place behind all of its
// priority, and a second import of it changes nothing.
func TestImportWithoutID(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push.5", "before")
	bring := func(payload string, header ...string) (ack pubAck) {
		t.Helper()
		if m := c.ask("pq.jobs.import", payload, header...); json.Unmarshal(m.Data, &ack) != nil {
			t.Fatalf("import of %q: %q %v", payload, m.Data, m.Header)
		}
		return ack
	}
	first := bring("first", "PQ-Unique", "job 1", "PQ-Priority", "5", "PQ-Deliveries", "2", "Nats-Time-Stamp", "2020-01-02T03:04:05Z")
	second := bring("second", "PQ-Unique", "job 2", "PQ-Priority", "5")
	if first.Duplicate || second.Duplicate || second.Seq <= first.Seq || first.Priority != 5 {
		t.Errorf("imported %+v and %+v", first, second)
	}
	for _, payload := range []string{"first", "of another content"} {
		again := bring(payload, "PQ-Unique", "job 1", "PQ-Priority", "5")
		if !again.Duplicate || again.ID != first.ID || again.Seq != first.Seq {
			t.Errorf("imported again: %+v, expected the duplicate of %+v", again, first)
		}
	}
	got := c.ask("pq.jobs.get."+first.ID, "")
	if got.Header.Get("PQ-Deliveries") != "2" || got.Header.Get("PQ-Unique") != "job 1" || !strings.HasPrefix(got.Header.Get("Nats-Time-Stamp"), "2020-01-02T03:04:05") {
		t.Errorf("the item has %v", got.Header)
	}
	c.push("pq.jobs.push.5", "after")
	for _, want := range []string{"before", "first", "second", "after"} {
		if got := string(c.pop("pq.jobs.pop.min", "").Data); got != want {
			t.Errorf("popped %q, expected %q", got, want)
		}
	}
	if again := bring("first", "PQ-Unique", "job 1"); again.Duplicate || again.Priority != 0 {
		t.Errorf("imported after its end: %+v", again)
	}
}

// An answer of get can be sent as it is, also of a dead letter of which not all is known.
func TestImportOfAnImportedDeadLetter(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.push("pq.jobs.push.5", "x").ID
	for _, known := range []string{"PQ-Dead-Reason", "PQ-Origin", "PQ-Origin-Id"} {
		c.acknowledged(c.ask("pq.first.import", "x", "PQ-Id", id, known, "y"))
		shown := c.ask("pq.first.get."+id, "")
		c.acknowledged(c.askMsg(&nats.Msg{Subject: "pq.second.import", Header: maps.Clone(shown.Header), Data: shown.Data}))
		if got := c.ask("pq.second.get."+id, "").Header; !maps.EqualFunc(got, shown.Header, slices.Equal) || got.Get(known) != "y" {
			t.Errorf("%v became %v", shown.Header, got)
		}
		c.ask("pq.first.admin.delete", "")
		c.ask("pq.second.admin.delete", "")
	}
}
