package bridge_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// lease pushes an item and leases it.
func (c *client) lease(body string, header ...string) *nats.Msg {
	c.Helper()
	c.push("pq.jobs.push", body)
	return c.pop("pq.jobs.pop.min", "", append([]string{"PQ-Lease", "1m"}, header...)...)
}

// What a leased item carries, and that each lease counts as a delivery.
func TestLease(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ack := c.push("pq.jobs.push.4", "x", "X-Mine", "1")
	var tokens []string
	for delivery := 1; delivery <= 3; delivery++ {
		m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
		for key, want := range map[string]string{
			"PQ-Id": ack.ID, "PQ-Priority": "4", "PQ-Deliveries": strconv.Itoa(delivery), "PQ-Fence": strconv.Itoa(delivery),
			"PQ-Ack": m.Reply, "X-Mine": "1", "PQ-Num-Pending": "0",
		} {
			if got := m.Header.Get(key); got != want {
				t.Errorf("delivery %d: %s is %q, want %q", delivery, key, got, want)
			}
		}
		until, err := time.Parse(time.RFC3339Nano, m.Header.Get("PQ-Lease-Expires"))
		if left := time.Until(until); err != nil || left > time.Minute || left < time.Minute-patience {
			t.Errorf("the lease ends in %s, %v", left, err)
		}
		if !strings.HasPrefix(m.Reply, "pq.jobs.ack.") || len(m.Reply) > 128 {
			t.Errorf("reply subject %s", m.Reply)
		}
		c.refused(c.ask("pq.jobs.pop.min", ""), 404, "leased")
		tokens = append(tokens, m.Reply)
		c.accepted(c.raw(m.Reply, "-NAK"))
	}
	for _, token := range tokens {
		c.lost(c.raw(token, "-NAK"), "taken", "expired")
	}
}

// lost checks that a settlement did not take effect because the lease was lost.
func (c *client) lost(m *nats.Msg, reasons ...string) {
	c.Helper()
	c.refused(m, 410)
	reason := m.Header.Get("PQ-Reason")
	for _, r := range reasons {
		if r == reason {
			reason = ""
		}
	}
	if len(m.Data) > 0 || m.Header.Get("Status") != "503" || m.Header.Get("Description") != "Lease Lost" || reason != "" {
		c.Fatalf("lost lease: %q, %v, want a reason of %q", m.Data, m.Header, reasons)
	}
}

// Every form of every settlement does what it says.
func TestSettlements(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, tc := range []struct {
		body                   string
		ready, leased, delayed int64
		dead                   int64
	}{
		{"", 0, 0, 0, 0},
		{"+ACK", 0, 0, 0, 0},
		{"+OK", 0, 0, 0, 0},
		{"-NAK", 1, 0, 0, 0},
		{"-NAK 0s", 1, 0, 0, 0},
		{`-NAK {"delay":0}`, 1, 0, 0, 0},
		{`-NAK {}`, 1, 0, 0, 0},
		{`-NAK {"delay":60000000000}`, 0, 0, 1, 0},
		{`-NAK {"delay": 60000000000}`, 0, 0, 1, 0},
		{"-NAK 1m", 0, 0, 1, 0},
		{"+WPI", 0, 1, 0, 0},
		{"+TERM", 0, 0, 0, 1},
		{"+TERM it is broken", 0, 0, 0, 1},
	} {
		m := c.lease("x")
		before := c.info("jobs").Rates["settle"]
		answer := c.raw(m.Reply, tc.body)
		if until := answer.Header.Get("PQ-Lease-Expires"); (until != "") != (tc.leased > 0) {
			t.Errorf("%q: the lease lasts until %q", tc.body, until)
		}
		c.accepted(answer)
		i := c.info("jobs")
		if ended := i.Rates["settle"] > before; ended != (tc.leased == 0) {
			t.Errorf("%q: %g settlements a second became %g", tc.body, before, i.Rates["settle"])
		}
		var dead int64
		if tc.dead > 0 {
			dead = c.info("jobs-dead").Ready
			c.ask("pq.jobs-dead.admin.purge", "")
		}
		if i.Ready != tc.ready || i.Leased != tc.leased || i.Delayed != tc.delayed || dead != tc.dead {
			t.Errorf("%q: %+v, %d dead", tc.body, i, dead)
		}
		c.ask("pq.jobs.admin.purge", "")
		c.lost(c.raw(m.Reply, tc.body), "gone")
	}
}

// Settlements that are none are refused and do nothing.
func TestMalformedSettlements(t *testing.T) {
	t.Parallel()
	c := serve(t)
	m := c.lease("x")
	last := m.Reply[len(m.Reply)-1:]
	flipped := "A"
	if last == "A" {
		flipped = "Q"
	}
	for _, tc := range []struct{ subject, body, says string }{
		{m.Reply, "ACK", "+ACK"},
		{m.Reply, "+ACKNOWLEDGED", "+ACK"},
		{m.Reply, "+ack", "+ACK"},
		{m.Reply, " ", "+ACK"},
		{m.Reply, "+ACK now", "followed by"},
		{m.Reply, "+WPI 30s", "followed by"},
		{m.Reply, "+NXT5", "+NXT [pop request]"},
		{m.Reply, "+NXT x", "JSON object"},
		{m.Reply, `+NXT {"batch":0}`, "batch is 0"},
		{m.Reply, "+TERMINATE", "+TERM [reason]"},
		{m.Reply, "-NAK soon", "30s"},
		{m.Reply, "-NAK -5s", "0s to"},
		{m.Reply, "-NAK 5", "30s"},
		{m.Reply, `-NAK {"delay":-1}`, "0s to"},
		{m.Reply, `-NAK {"delay":"5s"}`, "no number"},
		{m.Reply, `-NAK {"wait":5}`, "expected some of delay"},
		{m.Reply, `-NAK {"delay":5`, "does not end"},
		{"pq.jobs.ack.x.y", "+ACK", "no lease"},
		{m.Reply[:len(m.Reply)-1] + flipped, "+ACK", "no lease"},
		{m.Reply + "A", "+ACK", "no lease"},
		{m.Reply[:len(m.Reply)-4], "+ACK", "no lease"},
		{strings.Replace(m.Reply, "pq.jobs.", "pq.other.", 1), "+ACK", "no lease"},
	} {
		answer := c.refused(c.raw(tc.subject, tc.body), 400)
		if answer.Header.Get("Status") != "503" || !strings.Contains(answer.Header.Get("Nats-Service-Error"), tc.says) {
			t.Errorf("%s %q: %v, want %s", tc.subject, tc.body, answer.Header, tc.says)
		}
		if _, err := c.Request(tc.subject, []byte(tc.body), patience); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s %q: AckSync would not notice: %v", tc.subject, tc.body, err)
		}
		if err := c.Publish(tc.subject, []byte(tc.body)); err != nil {
			t.Fatal(err)
		}
	}
	c.refused(c.raw(m.Reply, "", "PQ-Delay", "5s"), 400)
	c.accepted(c.raw(m.Reply, "+ACK"))
}

// The methods of nats.go's messages settle leases.
func TestMsgMethods(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for name, tc := range map[string]struct {
		settle                       func(*nats.Msg) error
		ready, leased, delayed, dead int64
	}{
		"Ack":          {func(m *nats.Msg) error { return m.Ack() }, 0, 0, 0, 0},
		"AckSync":      {func(m *nats.Msg) error { return m.AckSync() }, 0, 0, 0, 0},
		"Nak":          {func(m *nats.Msg) error { return m.Nak() }, 1, 0, 0, 0},
		"NakWithDelay": {func(m *nats.Msg) error { return m.NakWithDelay(time.Minute) }, 0, 0, 1, 0},
		"InProgress":   {func(m *nats.Msg) error { return m.InProgress() }, 0, 1, 0, 0},
		"Term":         {func(m *nats.Msg) error { return m.Term() }, 0, 0, 0, 1},
		"Respond":      {func(m *nats.Msg) error { return m.Respond(nil) }, 0, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := c.in(t)
			m := c.lease("x")
			if err := tc.settle(m); err != nil {
				t.Fatal(err)
			}
			c.settled("jobs", tc.leased)
			i := c.info("jobs")
			var dead int64
			if tc.dead > 0 {
				dead = c.info("jobs-dead").Ready
			}
			if i.Ready != tc.ready || i.Leased != tc.leased || i.Delayed != tc.delayed || dead != tc.dead {
				t.Errorf("%+v, %d dead", i, dead)
			}
			c.ask("pq.jobs.admin.purge", "")
			if err := c.pretend(m).AckSync(); !errors.Is(err, nats.ErrNoResponders) {
				t.Errorf("AckSync of a lost lease: %v", err)
			}
		})
	}
}

// pretend returns a message like m that was not acknowledged yet.
func (c *client) pretend(m *nats.Msg) *nats.Msg {
	return &nats.Msg{Sub: m.Sub, Reply: m.Reply}
}

// A lease that ran out can still be acknowledged while nobody took the item,
// but not be extended or given back.
func TestLateSettlement(t *testing.T) {
	t.Parallel()
	c := serve(t)
	lost := c.hear("pq.jobs.event.lease_lost")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	c.push("pq.jobs.push", "x")
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "20ms")
	c.next(lost)
	c.lost(c.raw(m.Reply, "+WPI"), "expired")
	c.lost(c.raw(m.Reply, "-NAK"), "expired")
	c.accepted(c.raw(m.Reply, "+ACK"))
	c.lost(c.raw(m.Reply, "+ACK"), "gone")
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "empty")

	c.push("pq.jobs.push", "x")
	m = c.pop("pq.jobs.pop.min", "", "PQ-Lease", "20ms")
	c.next(lost)
	second := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	c.lost(c.raw(m.Reply, "+ACK"), "taken")
	c.lost(c.raw(m.Reply, "+TERM"), "taken")
	c.accepted(c.raw(second.Reply, "+ACK"))
}

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

// A queue may lease by default.
func TestDefaultLease(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"lease":"1m"}`)
	c.push("pq.jobs.push", "x")
	m := c.pop("pq.jobs.pop.min", "")
	if m.Reply == "" || m.Header.Get("PQ-Ack") != m.Reply {
		t.Errorf("%q, %v", m.Reply, m.Header)
	}
	answer := c.raw(m.Reply, "+WPI")
	until, err := time.Parse(time.RFC3339Nano, answer.Header.Get("PQ-Lease-Expires"))
	if left := time.Until(until); err != nil || left < 30*time.Second {
		t.Errorf("the lease was extended by %s, %v", left, err)
	}
	c.accepted(c.raw(m.Reply, "+ACK"))
}

// +NXT acknowledges and pops in one go.
func TestNext(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for i := range 6 {
		c.push(fmt.Sprintf("pq.jobs.push.%d", i), strconv.Itoa(i))
	}
	m := c.pop("pq.jobs.pop.max", "", "PQ-Lease", "1m", "PQ-Band", "1..4")
	for _, want := range []string{"3", "2"} {
		before := c.info("jobs").Rates["settle"]
		next := c.raw(m.Reply, "+NXT")
		if string(next.Data) != want || next.Reply == "" {
			t.Fatalf("next is %q, %v, want %s", next.Data, next.Header, want)
		}
		if after := c.info("jobs").Rates["settle"]; after <= before {
			t.Errorf("%g settlements a second became %g", before, after)
		}
		c.lost(c.raw(m.Reply, "+ACK"), "gone")
		m = next
	}
	// It may ask for something else.
	batch := c.batch(c.send(m.Reply, `+NXT {"batch":2,"min":0,"lease":5000000000}`))
	if got := bodies(batch); len(got) != 2 || got[0] != "5" || got[1] != "1" {
		t.Errorf("next are %q", got)
	}
	m = batch[0]
	c.accepted(c.raw(batch[1].Reply, ""))
	if next := c.raw(m.Reply, "+NXT", "PQ-Band", "-1.."); string(next.Data) != "0" {
		t.Errorf("next is %q, %v", next.Data, next.Header)
	} else {
		m = next
	}
	// Nothing there: the acknowledgement holds.
	c.refused(c.raw(m.Reply, "+NXT"), 404, "empty")
	c.lost(c.raw(m.Reply, "+NXT"), "gone")
	// A lost lease takes nothing.
	c.push("pq.jobs.push", "x")
	c.lost(c.raw(m.Reply, "+NXT"), "gone")
	// Without a reply subject it only settles.
	m = c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	c.push("pq.jobs.push", "y")
	if err := c.Publish(m.Reply, []byte("+NXT")); err != nil {
		t.Fatal(err)
	}
	c.settled("jobs", 0)
	if i := c.info("jobs"); i.Ready != 1 {
		t.Errorf("%+v", i)
	}
	// It can wait.
	m = c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	sub := c.send(m.Reply, `+NXT {"expires":20000000000}`)
	c.waiting("jobs", 1)
	c.push("pq.jobs.push", "z")
	if next := c.next(sub); string(next.Data) != "z" || next.Reply == "" {
		t.Errorf("next is %q, %v", next.Data, next.Header)
	}
	if i := c.info("jobs"); i.Leased != 1 {
		t.Errorf("%+v", i)
	}
}

// An item that nobody was there to receive comes back at once, and that does
// not count as a delivery.
func TestNobodyReceives(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push", "x")
	gone := c.NewInbox()
	if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: gone, Header: h("PQ-Lease", "1h")}); err != nil {
		t.Fatal(err)
	}
	m := c.pop("pq.jobs.pop.min", "", "PQ-Wait", "20s", "PQ-Lease", "1h")
	if m.Header.Get("PQ-Deliveries") != "1" || m.Header.Get("PQ-Fence") != "2" {
		t.Errorf("%v", m.Header)
	}
	// A client's message that looks like the server's settles nothing.
	if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.ack.x.y", Header: h("Status", "503")}); err != nil {
		t.Fatal(err)
	}
	c.accepted(c.raw(m.Reply, "+ACK"))
}

// An item whose pop was repeated with its id does not come back because one of
// the answers reached nobody; when no answer reached anybody it does.
func TestNobodyReceivesOneOfTwo(t *testing.T) {
	c := serve(t)
	toNobody := func(header ...string) {
		t.Helper()
		if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: c.NewInbox(), Header: h(header...)}); err != nil {
			t.Fatal(err)
		}
	}
	c.push("pq.jobs.push.1", "held")
	held := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h", "Nats-Msg-Id", "a")
	toNobody("PQ-Lease", "1h", "Nats-Msg-Id", "a")
	// What comes back later shows that the first signal was heard.
	c.push("pq.jobs.push.2", "given back")
	toNobody("PQ-Lease", "1h")
	back := c.pop("pq.jobs.pop.min", "", "PQ-Wait", "60s", "PQ-Lease", "1h")
	if string(back.Data) != "given back" || back.Header.Get("PQ-Fence") != "2" {
		t.Errorf("%q came back, %v", back.Data, back.Header)
	}
	c.accepted(c.raw(held.Reply, "+WPI"))
	c.accepted(c.raw(held.Reply, "+ACK"))

	c.push("pq.other.push", "for nobody")
	for range 2 {
		if err := c.PublishMsg(&nats.Msg{Subject: "pq.other.pop.min", Reply: c.NewInbox(), Header: h("PQ-Lease", "1h", "Nats-Msg-Id", "a")}); err != nil {
			t.Fatal(err)
		}
	}
	if m := c.pop("pq.other.pop.min", "", "PQ-Wait", "60s", "PQ-Lease", "1h"); string(m.Data) != "for nobody" || m.Header.Get("PQ-Deliveries") != "1" {
		t.Errorf("%q came back, %v", m.Data, m.Header)
	}
}

// Any bridge on the store settles what another one leased, also after that one
// has gone; a bridge on another store does not.
func TestSettleElsewhere(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{})
	m := c.lease("x")
	c.drain(c.second())
	third := c.second()
	c.drain(c.env.Bridge)
	c.accepted(c.raw(m.Reply, "+ACK"))
	c.drain(third)
	other := serve(t)
	other.refused(other.raw(m.Reply, "+ACK"), 400)
}

// An acknowledgement that held is not said to have failed because there is
// nothing next: nats.go takes Status 503 for nobody being there.
func TestNextOfNothing(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for body, want := range map[string]string{"+NXT": "404", `+NXT {"expires":50000000}`: "408"} {
		c.push("pq.jobs.push", "x")
		m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
		answer := c.raw(m.Reply, body)
		if got := answer.Header.Get("Status"); got != want {
			t.Errorf("%s answers Status %s, want %s", body, got, want)
		}
	}
}

// A holder who says in the server's name that nobody received the item keeps it
// from its last delivery for a while, not for ever.
func TestForgedReturns(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push", "poison")
	c.ask("pq.jobs.admin.config", `{"max_deliveries":2}`)
	dead := c.hear("pq.jobs.event.dead")
	for lease := 1; len(dead.came) == 0; lease++ {
		if lease > fdbpq.MaxReturns+3 {
			t.Fatalf("%d leases, and the item is not dead", lease)
		}
		m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Wait", "100s")
		if err := c.PublishMsg(&nats.Msg{Subject: m.Reply, Header: h("Status", "503")}); err != nil {
			t.Fatal(err)
		}
		for c.info("jobs").Leased > 0 { // the return is on its way
		}
		if lease < fdbpq.MaxReturns && m.Header.Get("PQ-Deliveries") != "1" {
			t.Errorf("lease %d counts: %v", lease, m.Header)
		}
		if c.info("jobs").Ready == 0 {
			c.next(dead)
			return
		}
	}
}
