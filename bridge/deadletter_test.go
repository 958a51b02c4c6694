package bridge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// The dead-letter queue of a queue whose name is too long for one cannot be asked for, so
// no item goes there.
func TestNoDeadLettersOfLongNames(t *testing.T) {
	t.Parallel()
	if err := subjects.CheckQueue(strings.Repeat("q", fdbpq.MaxDeadLetterName-len(fdbpq.DeadLetterSuffix)) + fdbpq.DeadLetterSuffix); err != nil {
		t.Error(err)
	}
	c := serve(t)
	for _, test := range []struct {
		length int // of the name, which ends in -dead
		dies   bool
	}{{fdbpq.MaxDeadLetterName - len(fdbpq.DeadLetterSuffix), true},
		{fdbpq.MaxDeadLetterName - len(fdbpq.DeadLetterSuffix) + 1, false}, {fdbpq.MaxDeadLetterName, false}} {
		queue := strings.Repeat("q", test.length-len(fdbpq.DeadLetterSuffix)) + fdbpq.DeadLetterSuffix
		c.push("pq."+queue+".push", "keep me")
		leased := c.pop("pq."+queue+".pop.min", "", "PQ-Lease", "1h")
		if test.dies {
			c.accepted(c.raw(leased.Reply, "+TERM"))
			if m := c.pop("pq."+queue+"-dead.pop.min", ""); string(m.Data) != "keep me" {
				t.Errorf("%d bytes: the dead letter is %q", test.length, m.Data)
			}
			continue
		}
		if m := c.raw(leased.Reply, "+TERM"); m.Header.Get("Nats-Service-Error-Code") != "403" || !strings.Contains(m.Header.Get("Nats-Service-Error"), "dead_letter") {
			t.Errorf("%d bytes: +TERM is answered %v, expected 403", test.length, m.Header)
		}
		c.refused(c.raw("pq."+queue+".admin.config", `{"dead_letter_expired":true}`), 400, "")
		c.ask("pq."+queue+".admin.config", `{"max_deliveries":1}`)
		c.accepted(c.raw(leased.Reply, "-NAK"))
		if m := c.pop("pq."+queue+".pop.min", ""); string(m.Data) != "keep me" {
			t.Errorf("%d bytes: after its last delivery the item is %q", test.length, m.Data)
		}
	}
}

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
	// max_deliveries does not apply to a dead letter.
	c.ask("pq.jobs-dead.admin.config", `{"max_deliveries":1}`)
	c.accepted(c.raw(dead.Reply, "-NAK"))
	dead = c.pop("pq.jobs-dead.pop.min", "", "PQ-Lease", "1m")
	// It can be pushed to its first queue unchanged.
	again := c.acknowledged(c.askMsg(&nats.Msg{Subject: "pq.jobs.push", Data: dead.Data, Header: dead.Header}))
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	if again.Priority != 7 || m.Header.Get("PQ-Dead-Reason") != "" {
		t.Errorf("%+v, %v", again, m.Header)
	}
	// The consumer may give a reason, which may be long and contain any bytes.
	c.accepted(c.raw(m.Reply, "+TERM "+strings.Repeat("bad\n", 1000)))
	dead = c.pop("pq.jobs-dead.pop.max", "")
	if reason := dead.Header.Get("PQ-Dead-Reason"); !strings.HasPrefix(reason, "bad bad ") || len(reason) > 200 {
		t.Errorf("reason %q", reason)
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

// A right to configure one queue gives no right on another: a dead-letter queue gets
// items only from the queues that its own configuration names.
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
		t.Errorf("%d items are in a queue that accepts no dead letters, expected its own alone", n)
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
		t.Errorf("the dead letter of a queue that accepts dead letters is %q, %v", m.Data, m.Header)
	}
	for _, bad := range []string{"a b", "a,", "_sys", "*,a"} {
		c.refused(c.raw("pq.victim.admin.config", `{"dead_letters_from":"`+bad+`"}`), 400, "")
	}
}
