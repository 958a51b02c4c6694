package bridge_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// Past its last delivery an item goes to the dead-letter queue with all it has.
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
	// A dead letter does not die of its deliveries.
	c.ask("pq.jobs-dead.admin.config", `{"max_deliveries":1}`)
	c.accepted(c.raw(dead.Reply, "-NAK"))
	dead = c.pop("pq.jobs-dead.pop.min", "", "PQ-Lease", "1m")
	// It can be pushed where it came from as it is.
	again := c.acknowledged(c.askMsg(&nats.Msg{Subject: "pq.jobs.push", Data: dead.Data, Header: dead.Header}))
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	if again.Priority != 7 || m.Header.Get("PQ-Dead-Reason") != "" {
		t.Errorf("%+v, %v", again, m.Header)
	}
	// A reason of the holder's own, which may be long and odd.
	c.accepted(c.raw(m.Reply, "+TERM "+strings.Repeat("bad\n", 1000)))
	dead = c.pop("pq.jobs-dead.pop.max", "")
	if reason := dead.Header.Get("PQ-Dead-Reason"); !strings.HasPrefix(reason, "bad?bad?") || len(reason) > 200 {
		t.Errorf("reason %q", reason)
	}
}

// A right to configure a queue gives none on another: what one's own configuration
// says about dead letters does nothing to a queue that does not agree.
func TestDeadLettersNeedConsent(t *testing.T) {
	c := serve(t)
	dies := func(queue string) {
		t.Helper()
		c.push("pq."+queue+".push", "from "+queue)
		c.accepted(c.raw(c.pop("pq."+queue+".pop.min", "", "PQ-Lease", "1h").Reply, "+TERM"))
	}
	c.push("pq.victim.push", "its own")
	c.refused(c.raw("pq.attacker.admin.config", `{"dead_letter":"victim"}`), 400, "")
	dies("attacker")
	if n := c.info("victim").Ready; n != 1 {
		t.Errorf("%d items are in a queue that takes no dead letters, expected its own alone", n)
	}
	c.pop("pq.victim.pop.min", "")
	c.ask("pq.victim.admin.config", `{"dead_letters_from":"friend"}`)
	c.ask("pq.friend.admin.config", `{"dead_letter":"victim"}`)
	dies("friend")
	if m := c.pop("pq.victim.pop.min", ""); string(m.Data) != "from friend" || m.Header.Get("PQ-Origin") != "friend" {
		t.Errorf("the dead letter of a friend is %q, %v", m.Data, m.Header)
	}
	dies("victim")
	if m := c.pop("pq.victim-dead.pop.min", ""); string(m.Data) != "from victim" {
		t.Errorf("the dead letter of a queue that takes dead letters is %q, %v", m.Data, m.Header)
	}
	for _, bad := range []string{"a b", "a,", "_sys", "*,a"} {
		c.refused(c.raw("pq.victim.admin.config", `{"dead_letters_from":"`+bad+`"}`), 400, "")
	}
}
