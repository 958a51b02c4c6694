package bridge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// Terminations that are refused for want of a dead-letter queue do not fail the
// transaction that they are in.
func TestRefusedTerminationsShareATransaction(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{}) // settlements have transactions of their own
	queue := "pq.jobs" + strings.Repeat("q", fdbpq.MaxDeadLetterName-len("jobs"+fdbpq.DeadLetterSuffix)) + fdbpq.DeadLetterSuffix
	for range 4 {
		c.push(queue+".push", "x")
	}
	leased := c.batch(c.send(queue+".pop.min", "4", "PQ-Lease", "1h"))
	_, before := c.transactions()
	var batch []func() answers
	for _, m := range leased[1:] {
		batch = append(batch, func() answers { return c.send(m.Reply, "+TERM") })
	}
	first, all, release := c.gathered(db, func() answers { return c.send(leased[0].Reply, "+ACK") }, batch...)
	release()
	c.accepted(c.next(first))
	for _, answer := range all {
		c.refused(c.next(answer), 403)
	}
	if _, after := c.transactions(); after != before+2 {
		t.Errorf("%g transactions behind the first one, expected 1", after-before-1)
	}
}

// After its last delivery an item goes to the dead-letter queue, with payload, headers
// and priority.
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	c := serve(t)
	events := c.hear("pq.jobs.event.dead")
	c.ask("pq.jobs.admin.config", `{"max_deliveries":2}`)
	ack := c.push("pq.jobs.push.7", "x", "X-Mine", "1")
	for range 2 {
		m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
		c.accepted(c.raw(m.Reply, "-NAK"))
	}
	var event struct{ Type, Queue, ID, Reason, DeadLetter string }
	decode(t, []byte(strings.Replace(string(c.next(events).Data), "dead_letter", "deadletter", 1)), &event)
	if event.Type != "io.pq.v1.event.dead" || event.ID != ack.ID || event.Queue != "jobs" || event.DeadLetter != "jobs-dead" {
		t.Errorf("event %+v", event)
	}
	dead := c.pop("pq.jobs-dead.pop.min", "", "PQ-Lease", "1m")
	for key, want := range map[string]string{
		"PQ-Dead-Reason": "max_deliveries", "PQ-Origin": "jobs", "PQ-Origin-Id": ack.ID, "PQ-Priority": "7", "X-Mine": "1",
	} {
		if got := dead.Header.Get(key); got != want {
			t.Errorf("dead item: %s is %q, want %q", key, got, want)
		}
	}
	if string(dead.Data) != "x" || dead.Header.Get("PQ-Id") == ack.ID {
		t.Errorf("dead item %q, %v", dead.Data, dead.Header)
	}
}

// A dead letter has the reason that its holder has given, in all that shows it.
func TestReasonsOfDeadLetters(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for given, want := range map[string]string{
		"\u00fcber alles": "\u00fcber alles", "  a\tb\nc \x7f": "a b c", strings.Repeat("\u00e9", 150): strings.Repeat("\u00e9", 100),
		"x" + strings.Repeat("\u00e9", 150): "x" + strings.Repeat("\u00e9", 99), "\xff": "\ufffd", `"q" \`: `"q" \`,
	} {
		c.push("pq.jobs.push", "x")
		c.accepted(c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Reply, "+TERM "+given))
		item := object[protocol.Page](c, "pq.jobs-dead.list", `{"attempts":true}`).Items[0]
		if header := c.pop("pq.jobs-dead.peek.min", "").Header.Get("PQ-Dead-Reason"); item.Dead.Reason != want || header != want || !strings.HasPrefix(item.LastAttempts[0].Reason, want) {
			t.Errorf("+TERM %q: the list says %q, the header %q, the attempt %q", given, item.Dead.Reason, header, item.LastAttempts[0].Reason)
		}
		where, err := json.Marshal(map[string]any{"where": map[string]any{"reason": want}})
		if err != nil {
			t.Fatal(err)
		}
		if done := c.bulk("pq.jobs-dead.admin.remove", string(where)); done.Done != 1 {
			t.Errorf("%q: the filter finds %+v", want, done)
		}
	}
}
