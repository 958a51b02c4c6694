package bridge_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// cancelled cancels an item.
func (c *client) cancelled(id, body string) (done protocol.Cancelled) {
	c.Helper()
	m := c.ask("pq.jobs.cancel."+id, body)
	if err := json.Unmarshal(m.Data, &done); err != nil {
		c.Fatalf("cancel: %v, %s", m.Header, m.Data)
	}
	return done
}

// A caller cancels an item: whoever waits for its result hears that at once, and so does its holder from whatever it says.
func TestCancelOfALeasedItem(t *testing.T) {
	t.Parallel()
	c := serve(t)
	events := c.hear("pq.jobs.event.cancelled")
	c.push("pq.jobs.push", "x", "PQ-Result-TTL", "1h")
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Holder", "w1")
	id := m.Header.Get("PQ-Id")
	if refused := c.refused(c.raw("pq.jobs.cancel."+id, `{"leased":false}`), 409, "leased"); refused.Header.Get("Description") != "Leased" {
		t.Errorf("spared: %v", refused.Header)
	}
	waits := c.send("pq.jobs.result."+id, "", "PQ-Wait", forever)
	if done := c.cancelled(id, `{"reason":"not w\u00e4nted","leased":true}`); done != (protocol.Cancelled{ID: id, Outcome: "cancelled", Deliveries: 1}) {
		t.Errorf("cancelled: %+v", done)
	}
	result := c.next(waits)
	if result.Header.Get("PQ-Outcome") != "cancelled" || result.Header.Get("PQ-Cancel-Reason") != "not w\u00e4nted" || result.Header.Get("PQ-Dead-Reason") != "" || len(result.Data) > 0 {
		t.Errorf("the result is %v %q", result.Header, result.Data)
	}
	var e protocol.ItemEvent
	if err := json.Unmarshal(c.next(events).Data, &e); err != nil || e.ID != id || e.Holder != "w1" || e.Reason != "not w\u00e4nted" || e.Deliveries != 1 {
		t.Errorf("the event says %+v, %v", e, err)
	}
	for _, words := range []string{"+WPI", "+WPI 1/2", "+ACK", "", "+ACK done", "-NAK", "+TERM", "+BACK", "+NXT"} {
		lost := c.raw(m.Reply, words)
		c.lost(lost, "cancelled")
		if text := lost.Header.Get("Nats-Service-Error"); text != "lease lost: cancelled: not w?nted" {
			t.Errorf("%s: %s", words, text)
		}
	}
	if again := c.cancelled(id, ""); again.Outcome != "cancelled" || again.FinishedAt.IsZero() || again.Deliveries != 1 {
		t.Errorf("once more: %+v", again)
	}
	plain := c.lease("y")
	c.cancelled(plain.Header.Get("PQ-Id"), "")
	c.lost(c.raw(plain.Reply, "+WPI"), "gone")
	c.refused(c.raw("pq.jobs.cancel."+plain.Header.Get("PQ-Id"), ""), 404, "unknown")
	c.refused(c.raw("pq.none.cancel."+id, ""), 404, "unknown")
}

// bell is where the holder of a name hears that it has lost a lease.
func bell(queue, holder string) string {
	return fmt.Sprintf("pq.%s.event.lost-%x", queue, sha256.Sum256([]byte(holder)))[:len("pq..event.lost-")+len(queue)+16]
}

// Whoever ends a lease from outside rings for its holder, once, and for no other holder; a purge and a delete ring for all. A holder that
// ends its own lease does not, and neither does the removal of an item that nobody holds.
func TestBells(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const holder = "vm-7 \u2764 *.>"
	all := c.hear("pq.jobs.event.*")
	// rung is all that has rung until a purge does, and how many other events came.
	rung := func() (bells []protocol.LostEvent) {
		t.Helper()
		c.ask("pq.jobs.admin.purge", "")
		for {
			m := c.next(all)
			if m.Subject == "pq.jobs.event.purged" {
				return bells
			}
			var e protocol.LostEvent
			if err := json.Unmarshal(m.Data, &e); err != nil {
				t.Fatal(err)
			}
			if e.Type == "io.pq.v1.event.lost" {
				if m.Subject != bell("jobs", holder) || e.Time.IsZero() {
					t.Errorf("%s %s, expected on %s", m.Subject, m.Data, bell("jobs", holder))
				}
				e.Time = time.Time{}
				bells = append(bells, e)
			}
		}
	}
	for _, way := range []struct{ verb, body, cause, reason string }{
		{"cancel.<id>", `{"reason":"too late"}`, "cancelled", "too late"},
		{"remove.<id>", "", "removed", ""},
		{"revoke.<id>", `{"reason":"it hangs","delay":"1h"}`, "revoked", "it hangs"},
		{"admin.remove", `{"where":{"state":"leased"}}`, "removed", ""},
		{"admin.revoke", `{"where":{"state":"leased"},"reason":"all hang","delay":"1h"}`, "revoked", "all hang"},
	} {
		c.accepted(c.raw(c.lease("its own end", "PQ-Holder", holder).Reply, "+ACK"))
		m := c.lease("x", "PQ-Holder", holder)
		id := m.Header.Get("PQ-Id")
		c.ask("pq.jobs."+strings.ReplaceAll(way.verb, "<id>", id), way.body)
		c.refused(c.raw(m.Reply, "+WPI"), 410)
		want := protocol.LostEvent{Type: "io.pq.v1.event.lost", Queue: "jobs", ID: id, Fence: 1, Cause: way.cause, Reason: way.reason}
		if bells := rung(); len(bells) != 1 || bells[0] != want {
			t.Errorf("%s: %+v, expected %+v", way.verb, bells, want)
		}
	}
	c.cancelled(c.push("pq.jobs.push", "waits").ID, "")
	c.cancelled(c.lease("of a holder without a name").Header.Get("PQ-Id"), "")
	c.ask("pq.jobs.remove."+c.push("pq.jobs.push", "waits").ID, "")
	if bells := rung(); len(bells) > 0 {
		t.Errorf("nobody has lost a lease: %+v", bells)
	}
	c.ask("pq.jobs.admin.delete", "")
	if m := c.next(all); m.Subject != "pq.jobs.event.purged" {
		t.Errorf("a delete rings %s %s", m.Subject, m.Data)
	}
	c.refused(c.raw("pq.jobs.admin.purge", ""), 404, "unknown")
	c.refused(c.raw("pq.jobs.admin.delete", ""), 404, "unknown")
	c.push("pq.jobs.push", "x", "PQ-TTL", "1ms")
	if m := c.next(all); m.Subject != "pq.jobs.event.expired" {
		t.Errorf("a queue that is not there rings %s %s", m.Subject, m.Data)
	}
}
