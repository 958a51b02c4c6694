package bridge_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
)

// settleFrames sends settlements in frames and returns what became of each.
func (c *client) settleFrames(frames ...string) []string {
	c.Helper()
	return c.settled(c.sendBundle(settles, frames, "PQ-Frames", "true"), len(frames))
}

// leaseAsked leases items that ask for their results, and returns their ids and ack subjects.
func (c *client) leaseAsked(n int) (ids, acks []string) {
	c.Helper()
	c.pushBundle("pq.jobs.push", slices.Repeat([]string{frame("x", "PQ-Result-TTL", "1h")}, n))
	for _, m := range c.popBundle("pq.jobs.pop.min", "", "PQ-Bundle", fmt.Sprint(n), "PQ-Lease", "1h") {
		ids, acks = append(ids, m.Header.Get("PQ-Id")), append(acks, m.Header.Get("PQ-Ack"))
	}
	return ids, acks
}

// Each frame of a bundle settles a lease as a message of its own would, with any bytes as its result, and with the other words. The
// settlements of a lease keep their order, also where they take different ways to the store.
func TestSettleFrames(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ids, acks := c.leaseAsked(5)
	plain := c.leaseAll("jobs", 7)
	large := strings.Repeat("large\x00", 2000)
	frames, want := []string(nil), []string(nil)
	for _, of := range []struct{ ack, body, want string }{
		{acks[0], "+ACK a\x00b\r\n1 2\n +NXT ", "+OK kept"},
		{acks[1], "+WPI", "+OK 20"},
		{acks[1], "+ACK " + large, "+OK kept"},
		{acks[1], "+WPI", "-ERR 410 gone lease lost"},
		{acks[2], "+ACK ", "+OK kept"},
		{acks[3], "+ACK", "+OK"},
		{plain[0], "+ACK unasked", "+OK none"},
		{plain[1], "", "+OK"},
		{plain[2], "+OK", "+OK"},
		{plain[3], `-NAK {"delay":3600000000000}`, "+OK"},
		{plain[4], "+BACK a deploy", "+OK"},
		{plain[5], "+TERM it cannot be done", "+OK"},
		{plain[6], "+ACK unasked\n", "+OK none"},
		{plain[6], "+ACK again", "-ERR 410 gone lease lost"},
	} {
		frames, want = append(frames, frame(of.body, "PQ-Ack", of.ack)), append(want, of.want)
	}
	got := c.settleFrames(frames...)
	c.results(got, want...)
	for i := range got {
		if strings.HasPrefix(want[i], "+OK") && want[i] != "+OK 20" && got[i] != want[i] {
			t.Errorf("settlement %d is answered by %q, expected %q", i, got[i], want[i])
		}
	}
	for i, body := range []string{"a\x00b\r\n1 2\n +NXT ", large, "", ""} {
		c.finished(c.ask("pq.jobs.result."+ids[i], ""), "done", body, "PQ-Result", "")
	}
	if info := c.info("jobs"); info.Ready != 1 || info.Delayed != 1 || info.Leased != 1 {
		t.Errorf("%+v", info)
	}
	if dead := c.pop("pq.jobs-dead.pop.min", ""); dead.Header.Get("PQ-Dead-Reason") != "it cannot be done" {
		t.Errorf("%q, %v", dead.Data, dead.Header)
	}

	c.ask("pq.jobs.admin.config", `{"result_bytes":400}`)
	if got := c.settleFrames(frame("+ACK "+strings.Repeat("b", 100), "PQ-Ack", acks[4])); got[0] != "+OK dropped" {
		t.Errorf("a settlement without room is answered by %q", got)
	}
	c.finished(c.ask("pq.jobs.result."+ids[4], ""), "done", "", "PQ-Result", "dropped")
	c.inFlight("settlement", 0)
}

// A frame that is wrong is refused alone, and ends no lease.
func TestSettleFramesRefusesEach(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ids, acks := c.leaseAsked(1)
	ack, other := acks[0], c.leaseAll("mails", 1)[0]
	var frames, want []string
	for _, of := range [][2]string{
		{frame("+ACK"), "-ERR 400 - a settlement without PQ-Ack: expected the ack subject"},
		{frame("+ACK", "PQ-Ack", ""), "-ERR 400 - header PQ-Ack is empty"},
		{frame("+ACK", "PQ-Ack", ack, "PQ-Ack", ack), "-ERR 400 - header PQ-Ack occurs 2 times"},
		{frame("+ACK", "PQ-Ack", ack, "PQ-Price", "5"), "-ERR 400 - header \"PQ-Price\" is none of a settlement in a bundle: expected PQ-Ack, and PQ-Cost"},
		{frame("+ACK", "PQ-Ack", ack, "PQ-Cost", "1000001"), "-ERR 400 - PQ-Cost is"},
		{frame("+BACK", "PQ-Ack", ack, "PQ-Cost", "1"), "-ERR 400 - PQ-Cost of a +BACK without a reason"},
		{frame("+ACK", "PQ-Ack", ack, "Season", "spring"), "-ERR 400 - header \"Season\" is none of"},
		{"5 4\nPQ-Ac+ACK\n", "-ERR 400 - \"PQ-Ac\": expected a header such as"},
		{frame("+ACK", "PQ-Ack", strings.Repeat("a", 64<<10)), "-ERR 413 - the headers have"},
		{frame("+ACK", "PQ-Ack", "pq.jobs.pop.min"), "-ERR 400 - PQ-Ack is \"pq.jobs.pop.min\": expected the ack subject"},
		{frame("+ACK", "PQ-Ack", "a b"), "-ERR 400 - PQ-Ack is \"a b\": expected the ack subject"},
		{frame("+ACK", "PQ-Ack", other), "-ERR 400 - the lease is one of queue mails: expected those of jobs"},
		{frame("+ACK", "PQ-Ack", strings.Replace(other, "pq.mails.", "pq.jobs.", 1)), "-ERR 400 - the subject is no lease"},
		{frame("+NXT", "PQ-Ack", ack), "-ERR 400 - +NXT in a bundle"},
		{frame("+ACK\x00", "PQ-Ack", ack), "-ERR 400 - a settlement is"},
		{frame("+OK result", "PQ-Ack", ack), "-ERR 400 - a settlement is followed by"},
		{frame("-NAK soon", "PQ-Ack", ack), "-ERR 400 - the delay"},
		{frame("+TERM "+strings.Repeat("r", 8<<10), "PQ-Ack", ack), "-ERR 413 - a settlement has"},
		{frame("+WPI", "PQ-Ack", ack), "+OK 20"},
	} {
		frames, want = append(frames, of[0]), append(want, of[1])
	}
	c.results(c.settleFrames(frames...), want...)
	most := int(c.MaxPayload()) - 1024
	c.results(c.settleFrames(frame("+ACK "+strings.Repeat("x", most+1), "PQ-Ack", ack)), "-ERR 413 - a result has")
	c.refused(c.ask("pq.jobs.result."+ids[0], ""), 404, "pending")
	c.accepted(c.raw(other, "+ACK"))
	body := strings.Repeat("x", most)
	c.results(c.settleFrames(frame("+ACK "+body, "PQ-Ack", ack)), "+OK kept")
	c.finished(c.ask("pq.jobs.result."+ids[0], ""), "done", body)
}

// A bundle whose frames cannot be told apart settles nothing.
func TestSettleFramesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ack := c.leaseAll("jobs", 1)[0]
	one := frame("+ACK", "PQ-Ack", ack)
	for _, tc := range []struct {
		to, body string
		header   []string
		code     int
		says     string
	}{
		{settles, one, []string{"PQ-Bundle", "1", "PQ-Frames", "yes"}, 400, `PQ-Frames is "yes": expected true`},
		{settles, one, []string{"PQ-Bundle", "1", "PQ-Frames", "true", "PQ-Frames", "true"}, 400, "expected true"},
		{settles, one, []string{"PQ-Frames", "true"}, 400, "PQ-Frames without PQ-Bundle"},
		{ack, "+ACK", []string{"PQ-Frames", "true", "PQ-Ack", ack}, 400, "PQ-Frames without PQ-Bundle"},
		{settles, one, []string{"PQ-Bundle", "2", "PQ-Frames", "true"}, 400, "item 1: the message ends here"},
		{settles, one + one, []string{"PQ-Bundle", "1", "PQ-Frames", "true"}, 400, "bytes follow item 0"},
		{settles, one + one[:len(one)-2], []string{"PQ-Bundle", "2", "PQ-Frames", "true"}, 400, "item 1: its first line says"},
		{settles, ack + " +ACK", []string{"PQ-Bundle", "1", "PQ-Frames", "true"}, 400, "item 0:"},
		{settles, one, []string{"PQ-Bundle", "1", "PQ-Frames", "true", "PQ-Ack", ack}, 400, `"PQ-Ack" is none of a bundle of settlements: expected PQ-Bundle alone, or PQ-Frames beside it`},
		{settles, one, []string{"PQ-Bundle", "1"}, 400, "the body has 3 lines"},
		{settles, one, []string{"PQ-Bundle", "1001", "PQ-Frames", "true"}, 413, "allowed are 1000"},
	} {
		m := c.refused(c.raw(tc.to, tc.body, tc.header...), tc.code)
		if text := m.Header.Get("Nats-Service-Error"); !strings.Contains(text, tc.says) || m.Header.Get("Status") != "503" {
			t.Errorf("%q with %v is refused by %v, expected %s", tc.body, tc.header, m.Header, tc.says)
		}
	}
	c.results(c.settleFrames(strings.TrimSuffix(frame("+WPI", "PQ-Ack", ack), "\n")), "+OK 20")
}

// Large results leave the transactions of pops to the pops, and do not share a transaction that would be too large. Small ones go with
// the pops.
func TestLargeResultsInBundle(t *testing.T) {
	t.Parallel()
	const n, size, most = 16, 20_000, 30_000 // in a transaction
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true, Limits: bridge.Limits{BatchBytes: most}})
	ids, acks := c.leaseAsked(2 * n)
	c.push("pq.jobs.push", "next")
	pops, changes := c.transactions()
	release := sync.OnceFunc(db.blockNext())
	defer release()
	first := c.send("pq.jobs.pop.min", "")
	db.awaitBlocked(t)
	pop := c.send("pq.jobs.pop.min", "")
	var frames []string
	for i, ack := range acks {
		frames = append(frames, frame("+ACK "+strings.Repeat("r", 1+i%2*size), "PQ-Ack", ack))
	}
	settled := c.send(settles, strings.Join(frames, ""), "PQ-Bundle", fmt.Sprint(2*n), "PQ-Frames", "true")
	c.inFlight("settlement", 2*n)
	c.finished(c.ask("pq.jobs.result."+ids[2*n-1], "", "PQ-Wait", forever), "done", strings.Repeat("r", 1+size)) // the large ones do not wait for pops
	c.inFlight("work", 2)
	release()
	if m := c.next(first); string(m.Data) != "next" {
		t.Errorf("popped %q", m.Data)
	}
	c.refused(c.next(pop), 404)
	c.results(c.settled(c.next(settled), 2*n), slices.Repeat([]string{"+OK kept"}, 2*n)...)
	if p, s := c.transactions(); p != pops+2 || s != changes+n {
		t.Errorf("%d small results and %d of %d bytes made %g transactions of pops and %g of settlements, expected 2 and %d", n, n, size, p-pops, s-changes, n)
	}
}
