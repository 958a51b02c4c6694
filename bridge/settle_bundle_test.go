package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
)

// settles is the subject that a bundle of settlements of the queue jobs goes to.
const settles = "pq.jobs.ack.bundle.settle"

// leaseAll pushes items and leases them, and returns their ack subjects.
func (c *client) leaseAll(queue string, n int) (acks []string) {
	c.Helper()
	var frames []string
	for i := range n {
		frames = append(frames, frame(fmt.Sprint(i)))
	}
	c.pushBundle("pq."+queue+".push", frames)
	for _, m := range c.popBundle("pq."+queue+".pop.min", "", "PQ-Bundle", fmt.Sprint(n), "PQ-Lease", "1h") {
		acks = append(acks, m.Header.Get("PQ-Ack"))
	}
	return acks
}

// settleAll sends settlements in one message and returns what became of each.
func (c *client) settleAll(to string, lines ...string) []string {
	c.Helper()
	return c.settled(c.raw(to, strings.Join(lines, "\n"), "PQ-Bundle", fmt.Sprint(len(lines))), len(lines))
}

// settled reads the answer to a bundle of n settlements.
func (c *client) settled(m *nats.Msg, n int) []string {
	c.Helper()
	results := strings.Split(string(m.Data), "\n")
	if len(results) != n || m.Header.Get("PQ-Bundle") != fmt.Sprint(n) || len(m.Header) != 1 {
		c.Fatalf("%q, %v", m.Data, m.Header)
	}
	return results
}

// results checks the results of a bundle by how they begin.
func (c *client) results(got []string, want ...string) {
	c.Helper()
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		c.Errorf("results %q, expected %q", got, want)
	}
}

// Each line of a bundle settles a lease as a message of its own would, and has its own
// result.
func TestSettleBundle(t *testing.T) {
	t.Parallel()
	c := serve(t)
	acks := c.leaseAll("jobs", 10)
	c.accepted(c.raw(acks[7], "+ACK"))
	before := time.Now()
	got := c.settleAll(settles,
		acks[0], acks[1]+" +ACK", acks[2]+" -NAK", acks[3]+` -NAK {"delay":3600000000000}`, acks[4]+" +WPI",
		acks[5]+" +TERM it cannot be done\r", acks[7], acks[6]+" +OK",
		acks[8]+" +BACK", acks[9]+" +BACK stopped for a deploy")
	c.results(got, "+OK", "+OK", "+OK", "+OK", "+OK 20", "+OK", "-ERR 410 gone lease lost", "+OK", "+OK", "+OK")
	if ends, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(got[4], "+OK ")); err != nil || ends.Before(before.Add(50*time.Minute)) {
		t.Errorf("the extended lease: %q", got[4])
	}
	if got[0] != "+OK" || got[5] != "+OK" {
		t.Errorf("results %q", got)
	}
	if info := c.info("jobs"); info.Ready != 3 || info.Delayed != 1 || info.Leased != 1 || info.Rates["settle"] < 7.0/60 {
		t.Errorf("%+v", info)
	}
	if dead := c.pop("pq.jobs-dead.pop.min", ""); dead.Header.Get("PQ-Dead-Reason") != "it cannot be done" || string(dead.Data) != "5" {
		t.Errorf("%q, %v", dead.Data, dead.Header)
	}
	c.results(c.settleAll(settles, acks...), "-ERR 410 gone", "-ERR 410 gone", "+OK", "+OK", "+OK", "-ERR 410 gone", "-ERR 410 gone", "-ERR 410 gone", "+OK", "+OK")
	c.inFlight("settlement", 0)
	m := c.metrics()
	if done, lost := m["pq_requests_total{code=200,verb=ack}"], m["pq_requests_total{code=410,verb=ack}"]; done != 15 || lost != 6 {
		t.Errorf("%v settlements and %v that were refused are counted, expected 15 and 6", done, lost)
	}
}

// A line that is wrong is refused alone. A bundle settles leases of one queue: a right on
// that one is none on another.
func TestSettleBundleRefusesLines(t *testing.T) {
	t.Parallel()
	c := serve(t)
	acks, other := c.leaseAll("jobs", 3), c.leaseAll("mails", 1)
	forged := strings.Replace(other[0], "pq.mails.", "pq.jobs.", 1)
	c.results(c.settleAll(settles, acks[0], "", "x y", other[0]+" +ACK", forged, acks[1]+" +NXT", acks[1]+" +ACK 5", acks[1]+" +DO", acks[1]+" -NAK soon", "pq.jobs.pop.min", acks[2]),
		"+OK", "-ERR 400 - \"\": expected the ack subject", "-ERR 400 - \"x y\": expected the ack subject", "-ERR 400 - the lease is one of queue mails: expected those of jobs",
		"-ERR 400 - the subject is no lease", "-ERR 400 - +NXT in a bundle", "-ERR 400 - a result in a bundle", "-ERR 400 - a settlement is", "-ERR 400 - the delay", "-ERR 400", "+OK")
	c.accepted(c.raw(other[0], "+ACK"))
	c.accepted(c.raw(acks[1], "+ACK"))
	for _, tc := range []struct {
		body   string
		header []string
		code   int
	}{
		{acks[1], []string{"PQ-Bundle", "2"}, 400},
		{acks[1] + "\n\n", []string{"PQ-Bundle", "1"}, 400},
		{acks[1], []string{"PQ-Bundle", "x"}, 400},
		{acks[1], []string{"PQ-Bundle", "1001"}, 413},
		{acks[1], []string{"PQ-Bundle", "1", "PQ-Lease", "1m"}, 400},
	} {
		if m := c.refused(c.raw(settles, tc.body, tc.header...), tc.code); m.Header.Get("Status") != "503" || len(m.Data) > 0 {
			t.Errorf("%q, %v: expected it in the form of settlements", m.Data, m.Header)
		}
	}
}

// Settlements of a lease keep their order, in one bundle, in several, and among single ones.
// The reply subject of a bundle of items takes their settlements, too.
func TestSettleBundleKeepsOrder(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.pushBundle("pq.jobs.push", slices.Repeat([]string{frame("x")}, 20))
	popped := c.ask("pq.jobs.pop.min", "", "PQ-Bundle", "20", "PQ-Lease", "1h")
	for _, m := range c.frames(popped) {
		ack := m.Header.Get("PQ-Ack")
		to := []answers{
			c.send(ack, "+WPI"),
			c.send(popped.Reply, ack+" +WPI\n"+ack+" -NAK\n"+ack+" +WPI\n", "PQ-Bundle", "3"),
			c.send(ack, "+WPI"),
			c.send(settles, ack+" -NAK", "PQ-Bundle", "1"),
		}
		c.accepted(c.next(to[0]))
		c.results(strings.Split(string(c.next(to[1]).Data), "\n"), "+OK 20", "+OK", "-ERR 410 returned")
		c.lost(c.next(to[2]), "returned")
		c.results([]string{string(c.next(to[3]).Data)}, "-ERR 410 returned")
	}
	c.refused(c.raw(popped.Reply, "+ACK"), 400) // it names no lease
}

// Without a reply subject a bundle settles as well.
func TestSettleBundleWithoutReply(t *testing.T) {
	t.Parallel()
	c := serve(t)
	acks := c.leaseAll("jobs", 2)
	if err := c.PublishMsg(&nats.Msg{Subject: settles, Data: []byte(strings.Join(acks, "\n")), Header: h("PQ-Bundle", "2")}); err != nil {
		t.Fatal(err)
	}
	c.results(c.settleAll(settles, acks...), "-ERR 410 gone", "-ERR 410 gone") // after them
}

// While the store is away each settlement of a bundle is answered 503, and its lease stays.
func TestSettleBundleWhileStoreIsAway(t *testing.T) {
	t.Parallel()
	db := faulty(t)
	c := serveOn(t, db)
	acks := c.leaseAll("jobs", 3)
	db.Disconnect()
	c.results(c.settleAll(settles, acks...), "-ERR 503 - ", "-ERR 503 - ", "-ERR 503 - ")
	c.refused(c.sendBundle("pq.jobs.push", []string{frame("x")}), 503)
	c.refused(c.raw("pq.jobs.pop.min", "", "PQ-Bundle", "2"), 503)
	db.Reconnect()
	c.persistent("pq.jobs.info", "")
	c.results(c.settleAll(settles, acks...), "+OK", "+OK", "+OK")
}

// Settlements of a bundle count as many, and their answer fits into a message.
func TestSettleBundleLimits(t *testing.T) {
	t.Parallel()
	c := serveWithin(t, 4<<10, bridge.Options{Exclusive: true, Limits: bridge.Limits{Requests: 5}}) // 20 settlements
	line := "pq.jobs.ack.x." + strings.Repeat("y", 60)
	c.results(c.settleAll(settles, slices.Repeat([]string{line}, 20)...), slices.Repeat([]string{"-ERR 400 -"}, 20)...)
	many := strings.Repeat("x\n", 21)
	c.refused(c.raw(settles, many, "PQ-Bundle", "21"), 429, "busy")
	c.refused(c.raw(settles, strings.Repeat("x\n", 1000), "PQ-Bundle", "1000"), 413)
	c.inFlight("settlement", 0)
}
