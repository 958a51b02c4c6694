package bridge_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// asked pushes an item that asks for its result, and returns its id.
func (c *client) asked(queue, body string, header ...string) string {
	c.Helper()
	return c.push("pq."+queue+".push", body, append(header, "PQ-Result-TTL", "1h")...).ID
}

// finished expects the result of an item.
func (c *client) finished(m *nats.Msg, outcome, body string, header ...string) {
	c.Helper()
	if m.Header.Get("PQ-Outcome") != outcome || string(m.Data) != body {
		c.Errorf("the result is %q, %v: expected %s with %q", m.Data, m.Header, outcome, body)
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get("PQ-Finished-At"))
	if age := time.Since(at); err != nil || age < -time.Second || age > testenv.Patience() {
		c.Errorf("it ended at %s, %s ago: %v", m.Header.Get("PQ-Finished-At"), age, err)
	}
	for i := 0; i < len(header); i += 2 {
		if got := m.Header.Get(header[i]); got != header[i+1] {
			c.Errorf("%s of a result that is %s is %q, expected %q", header[i], outcome, got, header[i+1])
		}
	}
}

// A caller gets what the worker said, and how the item ended.
func TestResult(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.asked("jobs", "work")
	c.refused(c.ask("pq.jobs.result."+id, ""), 404, "pending")
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	all := "+ACK\x00\r\n {\"any\":\"bytes\"} "
	if answer := c.raw(m.Header.Get("PQ-Ack"), "+ACK "+all); answer.Header.Get("PQ-Result") != "kept" || answer.Header.Get("Status") != "" {
		t.Errorf("the settlement is answered by %v", answer.Header)
	}
	for range 2 {
		c.finished(c.ask("pq.jobs.result."+id, ""), "done", all, "PQ-Deliveries", "1", "PQ-Result", "")
	}
	c.refused(c.ask("pq.jobs.get."+id, ""), 404, "unknown")

	id = c.asked("jobs", "work")
	if answer := c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack"), "+TERM bad address"); len(answer.Header) != 0 {
		t.Errorf("a settlement without a result is answered by %v", answer.Header)
	}
	dead := c.pop("pq.jobs-dead.peek.min", "")
	c.finished(c.ask("pq.jobs.result."+id, ""), "dead", "", "PQ-Dead-Reason", "bad address", "PQ-Dead-Letter", "jobs-dead", "PQ-Next-Id", dead.Header.Get("PQ-Id"), "PQ-Next", "")

	c.ask("pq.jobs.admin.config", `{"max_deliveries":1}`)
	id = c.asked("jobs", "work")
	c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack"), `-NAK {"reason":"no wood"}`)
	c.finished(c.ask("pq.jobs.result."+id, ""), "dead", "", "PQ-Dead-Reason", "max_deliveries", "PQ-Dead-Cause", "no wood")

	c.ask("pq.jobs.admin.config", `{"hand_over":"*"}`)
	id = c.asked("jobs", "work")
	next := c.push("pq.next.push", "", "PQ-Settle", c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack"))
	c.finished(c.ask("pq.jobs.result."+id, ""), "handed_over", "", "PQ-Next", "next", "PQ-Next-Id", next.ID, "PQ-Dead-Letter", "")

	id = c.asked("jobs", "work")
	if answer := c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack"), "+ACK "); answer.Header.Get("PQ-Result") != "kept" {
		t.Errorf("a settlement with a result of no byte is answered by %v", answer.Header)
	}
	c.finished(c.ask("pq.jobs.result."+id, ""), "done", "")

	id = c.asked("jobs", "work")
	c.pop("pq.jobs.pop.min", "")
	c.finished(c.ask("pq.jobs.result."+id, ""), "done", "", "PQ-Deliveries", "0")
}

// Whoever did not ask hears so, and a settlement with a result that nobody asked for takes effect.
func TestResultsThatNobodyKeeps(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.push("pq.jobs.push", "x").ID
	c.refused(c.ask("pq.jobs.result."+id, "", "PQ-Wait", forever), 409, "unkept")
	m := c.refused(c.ask("pq.jobs.result."+id, ""), 409, "unkept")
	if m.Header.Get("Description") != "Unkept" || !strings.Contains(m.Header.Get("Nats-Service-Error"), "PQ-Result-TTL") {
		t.Errorf("it is refused by %v", m.Header)
	}
	ack := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack")
	if answer := c.raw(ack, "+ACK unasked"); answer.Header.Get("PQ-Result") != "none" {
		t.Errorf("the settlement is answered by %v", answer.Header)
	}
	c.refused(c.ask("pq.jobs.result."+id, ""), 404, "unknown")
	c.refused(c.ask("pq.none.result."+id, ""), 404, "unknown")
	c.refused(c.raw(ack, "+ACK again"), 410, "gone")

	c.ask("pq.jobs.admin.config", `{"result_bytes":400}`)
	id = c.asked("jobs", "x")
	ack = c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack")
	if answer := c.raw(ack, "+ACK "+strings.Repeat("b", 100)); answer.Header.Get("PQ-Result") != "dropped" {
		t.Errorf("a settlement without room is answered by %v", answer.Header)
	}
	c.finished(c.ask("pq.jobs.result."+id, ""), "done", "", "PQ-Result", "dropped")
}

// Malformed requests say what was expected, and a result that is too large ends no lease.
func TestRefusedResults(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.asked("jobs", "x")
	for subject, header := range map[string][]string{
		"pq.jobs.result." + id: {"PQ-Wait", "soon"}, "pq.jobs.result.nonsense": nil, "pq.jobs.result." + id + "x": nil,
	} {
		c.refused(c.ask(subject, "", header...), 400)
	}
	c.refused(c.ask("pq.jobs.result."+id, "", "PQ-Lease", "1m"), 400)
	c.refused(c.ask("pq.jobs.result."+id, "body"), 400)
	ack := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack")
	c.refused(c.raw(ack, "+ACK x", "PQ-Result", "kept"), 400)
	c.refused(c.raw(ack, "+OK x"), 400)
	c.refused(c.raw(ack, "+ACK\nx"), 400)
	bundle := c.raw(ack, ack+" +ACK result\n"+ack+" +WPI", "PQ-Bundle", "2")
	if lines := strings.Split(string(bundle.Data), "\n"); len(lines) != 2 || !strings.HasPrefix(lines[0], "-ERR 400 - a result in a bundle") || !strings.HasPrefix(lines[1], "+OK") {
		t.Errorf("a bundle is answered by %q", bundle.Data)
	}
	most := int(c.MaxPayload()) - 1024
	c.refused(c.raw(ack, "+ACK "+strings.Repeat("x", most+1)), 413)
	c.refused(c.ask("pq.jobs.result."+id, ""), 404, "pending")
	body := strings.Repeat("x", most)
	c.accepted(c.raw(ack, "+ACK "+body))
	c.finished(c.ask("pq.jobs.result."+id, ""), "done", body)
}

// awaiting returns when so many requests for results wait at a bridge.
func (c *client) awaiting(n int) {
	c.Helper()
	testenv.AwaitValue(c, "requests that wait", n, c.total)
}

// A request waits for its item, however it ends, and several may wait for one.
func TestResultIsAwaited(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"max_interruptions":1,"hand_over":"*"}`)
	for name, end := range map[string]func(id string) (outcome, body string){
		"ack": func(string) (string, string) {
			c.accepted(c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack"), "+ACK done"))
			return "done", "done"
		},
		"large": func(string) (string, string) {
			body := strings.Repeat("large", 2000)
			c.accepted(c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack"), "+ACK "+body))
			return "done", body
		},
		"bundle": func(string) (string, string) {
			ack := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack")
			c.raw(ack, ack+" +ACK", "PQ-Bundle", "1")
			return "done", ""
		},
		"next": func(string) (string, string) {
			c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack"), "+NXT")
			return "done", ""
		},
		"lease": func(string) (string, string) {
			c.pop("pq.jobs.pop.min", "", "PQ-Lease", "10ms")
			return "dead", ""
		},
		"pop": func(string) (string, string) { c.pop("pq.jobs.pop.min", ""); return "done", "" },
		"hand-over": func(string) (string, string) {
			c.push("pq.next.push", "", "PQ-Settle", c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack"))
			return "handed_over", ""
		},
		"term": func(string) (string, string) {
			c.accepted(c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack"), "+TERM"))
			return "dead", ""
		},
		"evict": func(string) (string, string) {
			c.ask("pq.jobs.admin.config", `{"max_length":1,"overflow":"evict"}`)
			c.push("pq.jobs.push", "", "PQ-Priority", "-1")
			c.pop("pq.jobs.pop.min", "")
			c.ask("pq.jobs.admin.config", `{"max_length":0}`)
			return "evicted", ""
		},
		"remove": func(id string) (string, string) { c.ask("pq.jobs.remove."+id, ""); return "removed", "" },
		"bulk":   func(string) (string, string) { c.bulk("pq.jobs.admin.remove", `{"all":true}`); return "removed", "" },
	} {
		t.Run(name, func(t *testing.T) {
			c := c.in(t)
			id := c.asked("jobs", name)
			var sent []answers
			for range 3 {
				sent = append(sent, c.send("pq.jobs.result."+id, "", "PQ-Wait", forever))
			}
			c.awaiting(3)
			outcome, body := end(id)
			for _, from := range sent {
				c.finished(c.next(from), outcome, body)
			}
			c.awaiting(0)
		})
	}
	id := c.asked("jobs", "expires", "PQ-TTL", "50ms")
	c.finished(c.ask("pq.jobs.result."+id, "", "PQ-Wait", forever), "expired", "")

	id = c.asked("jobs", "pending")
	c.refused(c.ask("pq.jobs.result."+id, "", "PQ-Wait", "50ms"), 408)
	for _, end := range []string{"purge", "delete"} {
		id = c.asked("jobs", "gone")
		from := c.send("pq.jobs.result."+id, "", "PQ-Wait", forever)
		c.awaiting(1)
		c.ask("pq.jobs.admin."+end, "")
		c.refused(c.next(from), 404, "unknown")
	}
}

// Requests that wait have places, which those for items do not take.
func TestPlacesOfResults(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Exclusive: true, Limits: bridge.Limits{Waiters: 2}})
	id := c.asked("jobs", "x")
	sub := c.listen()
	for range 3 {
		if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.result." + id, Reply: sub.inbox, Header: h("PQ-Wait", forever)}); err != nil {
			t.Fatal(err)
		}
	}
	c.refused(c.next(sub), 409)
	// A request whose item has ended needs no place, and takes none of another client.
	over := c.push("pq.jobs.push.-1", "over", "PQ-Result-TTL", "1h").ID
	c.pop("pq.jobs.pop.min", "")
	c.finished(c.ask("pq.jobs.result."+over, "", "PQ-Wait", forever), "done", "")
	c.pop("pq.jobs.pop.min", "")
	for range 2 {
		c.finished(c.next(sub), "done", "")
	}
}

// A request looks, however short its wait is: the result may be there.
func TestShortestWaitForAResult(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.asked("jobs", "x")
	c.refused(c.ask("pq.jobs.result."+id, "", "PQ-Wait", "1ns"), 408)
	c.pop("pq.jobs.pop.min", "")
	c.finished(c.ask("pq.jobs.result."+id, "", "PQ-Wait", "1ns"), "done", "")
	c.awaiting(0)
}

// A bridge tells its callers of items that another bridge on the store ends.
func TestResultsOfAnotherBridge(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Prefix: "pq"})
	other := &client{TB: t, Conn: c.env.NATS.Connect(t, soon...), env: c.env}
	second := c.second(bridge.Options{Prefix: "other"})
	defer c.drain(second)
	const n = 20
	sent := make(map[string]answers)
	for i := range n {
		id := c.asked("jobs", fmt.Sprint(i))
		sent[id] = c.send("pq.jobs.result."+id, "", "PQ-Wait", forever)
	}
	c.awaiting(n)
	for range n {
		m := other.pop("other.jobs.pop.min", "", "PQ-Lease", "1m")
		other.accepted(other.raw(m.Header.Get("PQ-Ack"), "+ACK "+m.Header.Get("PQ-Id")))
	}
	for id, from := range sent {
		c.finished(c.next(from), "done", id)
	}
}

// More items end at once than a bridge looks at together. A bridge that is busy may refuse some of the requests, whose callers ask again.
func TestManyResultsOfAnotherBridge(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Prefix: "pq"})
	other := &client{TB: t, Conn: c.env.NATS.Connect(t, soon...), env: c.env}
	defer c.drain(c.second(bridge.Options{Prefix: "other"}))
	const n = 2000
	bundle := slices.Repeat([]string{frame("x", "PQ-Result-TTL", "1h")}, 1000)
	sent := c.listen()
	var ids []string
	for range n / len(bundle) {
		for _, item := range c.pushBundle("pq.jobs.push", bundle).Items {
			ids = append(ids, item.ID)
			if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.result." + item.ID, Reply: sent.inbox, Header: h("PQ-Wait", forever)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.awaiting(n)
	for range n / len(bundle) {
		other.send("other.jobs.pop.min", "", "PQ-Bundle", fmt.Sprint(len(bundle)))
	}
	refused := 0
	for range n {
		if m := c.next(sent); m.Header.Get("PQ-Reason") == "busy" {
			refused++
		} else {
			c.finished(m, "done", "")
		}
	}
	if refused == n {
		t.Error("nobody was told")
	}
	for _, id := range ids[:min(refused, 1)*n] {
		c.finished(c.ask("pq.jobs.result."+id, ""), "done", "")
	}
}

// A request that waits is answered when its bridge ends.
func TestResultsWhenTheBridgeEnds(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.asked("jobs", "x")
	from := c.send("pq.jobs.result."+id, "", "PQ-Wait", forever)
	c.awaiting(1)
	c.drain(c.env.Bridge)
	c.refused(c.next(from), 409)
}

// A request that waits is answered when its bridge goes on standby. Requests wait again when the bridge is back.
func TestResultsOnStandby(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.asked("jobs", "x")
	from := c.send("pq.jobs.result."+id, "", "PQ-Wait", forever)
	c.awaiting(1)
	if err := bridge.EnterStandby(t.Context(), c.env.Bridge); err != nil {
		t.Fatal(err)
	}
	c.refused(c.next(from), 409)
	if err := bridge.LeaveStandby(c.env.Bridge); err != nil {
		t.Fatal(err)
	}
	from = c.send("pq.jobs.result."+id, "", "PQ-Wait", forever)
	c.awaiting(1)
	c.pop("pq.jobs.pop.min", "")
	c.finished(c.next(from), "done", "")
}

// Results from the smallest to the largest come back as they were.
func TestResultsOfAllSizes(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, size := range []int{0, 1, 4096, 4097, 32 << 10, 32<<10 + 1, 90_000, 500_000} {
		body := bytes.Repeat([]byte{0}, size)
		id := c.asked("jobs", "x")
		from := c.send("pq.jobs.result."+id, "", "PQ-Wait", forever)
		c.accepted(c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m").Header.Get("PQ-Ack"), "+ACK "+string(body)))
		c.finished(c.next(from), "done", string(body))
	}
}

// The bodies of results count from the settlement on, in whatever transaction, so that a tenant keeps none beyond its bytes.
func TestQuotaOfResults(t *testing.T) {
	t.Parallel()
	const n = 6
	for name, settled := range map[string]struct {
		size int
		all  func(c *client, acks []string, body string) (results []string)
	}{
		"small ones": {3000, (*client).ackEach},
		"large ones": {6000, (*client).ackEach},
		"a bundle": {3000, func(c *client, acks []string, body string) []string {
			var frames []string
			for _, ack := range acks {
				frames = append(frames, frame("+ACK "+body, "PQ-Ack", ack))
			}
			return c.settled(c.sendBundle("pq.t.q.ack.bundle.settle", frames, "PQ-Frames", "true"), len(frames))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quota := int64(n*512 + 2*settled.size + settled.size/2)
			c := withTenants(t, bridge.Quotas{Bytes: quota})
			var acks []string
			for range n {
				c.push("pq.t.q.push", "", "PQ-Result-TTL", "1h")
			}
			for range n {
				acks = append(acks, c.pop("pq.t.q.pop.min", "", "PQ-Lease", "1h").Header.Get("PQ-Ack"))
			}
			kept := 0
			for i, result := range settled.all(c, acks, strings.Repeat("b", settled.size)) {
				switch {
				case strings.HasSuffix(result, "kept"):
					kept++
				case !strings.HasSuffix(result, "dropped"):
					t.Errorf("settlement %d is answered by %q", i, result)
				}
			}
			if kept != 2 {
				t.Errorf("%d results are kept, expected 2 within the quota", kept)
			}
			testenv.Await(t, "they are counted", func() bool { return c.tenantInfo("t").Bytes == int64(n*320+2*settled.size) })
			c.push("pq.t.q.push", strings.Repeat("x", int(quota)-n*320-2*settled.size-512)) // all that is left
		})
	}
}

// ackEach acknowledges leases with a result, all at once, and returns what became of the results.
func (c *client) ackEach(acks []string, body string) (results []string) {
	c.Helper()
	var all []answers
	for _, ack := range acks {
		all = append(all, c.send(ack, "+ACK "+body))
	}
	for _, one := range all {
		results = append(results, c.next(one).Header.Get("PQ-Result"))
	}
	return results
}
