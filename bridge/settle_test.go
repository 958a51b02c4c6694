package bridge_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// lease pushes an item and leases it.
func (c *client) lease(body string, header ...string) *nats.Msg {
	c.Helper()
	c.push("pq.jobs.push", body)
	return c.pop("pq.jobs.pop.min", "", append([]string{"PQ-Lease", "1m"}, header...)...)
}

// A leased item has the headers of its lease, and each lease counts as a delivery.
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
		if left := time.Until(until); err != nil || left > time.Minute || left < time.Minute-testenv.Patience() {
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
		c.lost(c.raw(token, "-NAK"), "taken", "returned")
	}
}

// A settlement is one of the protocol's words and nothing more, in a message and in a bundle.
func TestSettlementWordsAreExact(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push", "x")
	ack := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h").Reply
	for _, words := range []string{"+ACK\n", "+ACK\t", "+OK ", "+WPI ", "+WPI\n", "+OK +ACK", " +ACK", " ", "+ack", "+ACK{}"} {
		c.refused(c.raw(ack, words), 400)
		if !strings.Contains(words, "\n") {
			c.results([]string{string(c.raw(settles, ack+" "+words, "PQ-Bundle", "1").Data)}, "-ERR 400")
		}
	}
	c.results([]string{string(c.raw(settles, ack+" ", "PQ-Bundle", "1").Data)}, "-ERR 400")
	if n := c.info("jobs"); n.Leased != 1 {
		t.Fatalf("%+v, expected that the lease goes on", n)
	}
	c.accepted(c.raw(ack, "+WPI"))
	c.accepted(c.raw(ack, "-NAK "))
	c.accepted(c.raw(ack, "+ACK"))
}

// Clients that answer a message may send its headers back.
func TestSettlementWithHeadersOfItem(t *testing.T) {
	t.Parallel()
	c := serve(t)
	other := c.lease("other")
	settle := func(item *nats.Msg, body string, with *nats.Msg) *nats.Msg {
		t.Helper()
		to := c.listen()
		if err := c.PublishMsg(&nats.Msg{Subject: item.Reply, Reply: to.inbox, Data: []byte(body), Header: with.Header}); err != nil {
			t.Fatal(err)
		}
		return c.next(to)
	}
	for _, words := range []string{"+WPI", "-NAK", "+BACK", "+TERM no", "+ACK"} {
		item := c.lease(words, "X-Mine", "1")
		c.refused(settle(item, words, other), 400)
		c.refused(settle(item, "+NXT", item), 400)
		c.accepted(settle(item, words, item))
		c.askMsg(&nats.Msg{Subject: "pq.jobs.admin.purge"})
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

// Every form of every settlement word takes effect.
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
		{"+BACK", 1, 0, 0, 0},
		{"+BACK stopped", 1, 0, 0, 0},
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

// Malformed settlements are refused and do nothing.
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
		{m.Reply, "+OK now", "followed by"},
		{m.Reply, "+ACK\nnow", "followed by"},
		{m.Reply, "+WPI a\tb", "without control characters"},
		{m.Reply, "+NXT5", "+NXT [pop request]"},
		{m.Reply, "+NXT x", "JSON object"},
		{m.Reply, `+NXT {"batch":0}`, "batch is 0"},
		{m.Reply, "+TERMINATE", "+TERM [reason]"},
		{m.Reply, "+BACKWARD", "+BACK [reason]"},
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
		if _, err := c.Request(tc.subject, []byte(tc.body), testenv.Patience()); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s %q: AckSync would not notice: %v", tc.subject, tc.body, err)
		}
		if err := c.Publish(tc.subject, []byte(tc.body)); err != nil {
			t.Fatal(err)
		}
	}
	c.refused(c.raw(m.Reply, "", "PQ-Delay", "5s"), 400)
	c.accepted(c.raw(m.Reply, "+ACK"))
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

// Any bridge on the store settles leases of another one, also after that one has gone. A
// bridge on another store does not.
func TestSettleElsewhere(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{})
	m := c.lease("x")
	c.drain(c.second(bridge.Options{}))
	third := c.second(bridge.Options{})
	c.drain(c.env.Bridge)
	c.accepted(c.raw(m.Reply, "+ACK"))
	c.drain(third)
	other := serve(t)
	other.refused(other.raw(m.Reply, "+ACK"), 400)
}
