package bridge_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// waiting returns when n pops wait at a queue, which may not exist yet.
func (c *client) waiting(queue string, n int) {
	c.Helper()
	testenv.AwaitValue(c, "waiting pops", n, func() int { return c.waiters(queue) })
}

func (c *client) waiters(queue string) int {
	c.Helper()
	m := c.ask("pq."+queue+".info", "")
	if len(m.Data) == 0 {
		return c.total()
	}
	var i info
	decode(c, m.Data, &i)
	return int(i.Waiting)
}

// total is how many pops wait at all queues.
func (c *client) total() int {
	c.Helper()
	n, exported := c.own()["pq_waiters{}"]
	if !exported {
		c.Fatal("no metric pq_waiters")
	}
	return int(n)
}

// Waiting pops are served in the order in which they came, whatever makes an item
// ready, and before later pops.
func TestWaitersAreServedInOrder(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const n = 99
	inbox := c.NewInbox()
	answers := c.hear(inbox + ".>")
	for i := range n {
		m := &nats.Msg{Subject: "pq.jobs.pop.min", Reply: inbox + "." + strconv.Itoa(i), Header: h("PQ-Wait", "10m")}
		if i%3 == 0 {
			m.Data = []byte("1")
		}
		if err := c.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	c.waiting("jobs", n)
	for i := range n {
		c.push("pq.jobs.push", strconv.Itoa(i))
	}
	c.waiting("jobs", 0)
	for i := 0; i < n; {
		m := c.next(answers)
		if m.Header.Get("Status") == "204" {
			continue
		}
		if string(m.Data) != strconv.Itoa(i) || m.Subject != inbox+"."+strconv.Itoa(i) {
			t.Fatalf("answer %d: item %q to %s, %v", i, m.Data, m.Subject, m.Header)
		}
		i++
	}
}

// Everything that makes an item ready ends a wait.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for name, arrive := range map[string]func(held *nats.Msg){
		"push":  func(*nats.Msg) { c.push("pq.jobs.push", "x") },
		"delay": func(*nats.Msg) { c.push("pq.jobs.push", "x", "PQ-Delay", "10ms") },
		"nak":   func(held *nats.Msg) { c.accepted(c.raw(held.Reply, "-NAK")) },
		"late":  func(held *nats.Msg) { c.accepted(c.raw(held.Reply, "-NAK 10ms")) },
		"move":  func(held *nats.Msg) { c.push("pq.jobs.push.9", "x"); c.move() },
		"resume": func(*nats.Msg) {
			c.ask("pq.jobs.admin.pause", "")
			c.push("pq.jobs.push", "x")
			c.ask("pq.jobs.admin.resume", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := c.in(t)
			held := c.lease("held")
			sub := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Band", "..5")
			c.waiting("jobs", 1)
			arrive(held)
			if m := c.next(sub); m.Header.Get("PQ-Id") == "" {
				t.Errorf("%q, %v", m.Data, m.Header)
			}
			c.ask("pq.jobs.admin.purge", "")
		})
	}
	// A pop can wait for a queue that does not exist yet.
	sub := c.send("pq.new.pop.min", "", "PQ-Wait", forever)
	c.waiting("new", 1)
	c.push("pq.new.push", "x")
	if m := c.next(sub); string(m.Data) != "x" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
	// A peek waits too, and leaves the item there.
	sub = c.send("pq.new.peek.min", "", "PQ-Wait", forever)
	c.waiting("new", 1)
	c.push("pq.new.push", "y")
	if m := c.next(sub); string(m.Data) != "y" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
	c.pop("pq.new.pop.min", "")
}

// move gives the last item the first priority.
func (c *client) move() {
	c.Helper()
	m := c.ask("pq.jobs.peek.max", "")
	c.ask("pq.jobs.move."+m.Header.Get("PQ-Id")+".1", "")
}

// A wait that is over is answered in time.
func TestWaitRunsOut(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, wait := range []time.Duration{1, time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond} {
		for _, verb := range []string{"pop.min", "peek.max"} {
			start := time.Now()
			m := c.refused(c.ask("pq.jobs."+verb, fmt.Sprintf(`{"expires":%d}`, wait)), 408)
			took := time.Since(start)
			if m.Header.Get("Status") != "408" || m.Header.Get("Description") != "Request Timeout" || len(m.Data) > 0 {
				t.Errorf("%q, %v", m.Data, m.Header)
			}
			if took < wait/2 || took > wait+testenv.Patience() {
				t.Errorf("a wait of %s took %s", wait, took)
			}
		}
	}
	// Many at the same time, in the order of their ends.
	sub := c.listen()
	const n = 100
	for i := range n {
		wait := 500*time.Millisecond - time.Duration(i)*3*time.Millisecond
		m := &nats.Msg{Subject: "pq.jobs.pop.min", Reply: sub.inbox, Header: h("PQ-Wait", wait.String())}
		if err := c.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		c.refused(c.next(sub), 408)
	}
	if n := c.total(); n != 0 {
		t.Errorf("%d still wait", n)
	}
	c.push("pq.jobs.push", "x")
	c.pop("pq.jobs.pop.min", "", "PQ-Wait", forever)
}

func TestTooManyWaiters(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Limits: bridge.Limits{Waiters: 5}})
	sub := c.listen()
	for range 8 {
		if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: sub.inbox, Header: h("PQ-Wait", forever)}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if m := c.refused(c.next(sub), 409); m.Header.Get("Description") != "Exceeded MaxWaiting" || m.Header.Get("Status") != "409" {
			t.Errorf("%v", m.Header)
		}
	}
	// Pops that do not wait are served.
	c.refused(c.ask("pq.jobs.pop.min", ""), 404)
	for range 5 {
		c.push("pq.jobs.push", "x")
		if m := c.next(sub); string(m.Data) != "x" {
			t.Errorf("%q, %v", m.Data, m.Header)
		}
	}
}

// One queue cannot occupy all places for waiting pops, nor can one client of a queue.
func TestWaitingPlacesAreShared(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Limits: bridge.Limits{Waiters: 5}})
	inbox := c.NewInbox()
	flood := c.hear(inbox + ".*")
	for i := range 20 {
		m := &nats.Msg{Subject: "pq.jobs.pop.min", Reply: fmt.Sprint(inbox, ".", i), Header: h("PQ-Wait", "100s")}
		if err := c.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for range 15 {
		c.refused(c.next(flood), 409)
	}
	other := c.send("pq.other.pop.min", "", "PQ-Wait", "100s")
	if m := c.refused(c.next(flood), 409); m.Subject != inbox+".4" || m.Header.Get("Description") != "Exceeded MaxWaiting" {
		t.Errorf("%s had to make room: %v", m.Subject, m.Header)
	}
	beside := c.send("pq.jobs.pop.min", "", "PQ-Wait", "100s")
	if m := c.refused(c.next(flood), 409); m.Subject != inbox+".3" {
		t.Errorf("%s had to make room", m.Subject)
	}
	for _, subject := range []string{"pq.other.push", "pq.jobs.push", "pq.jobs.push", "pq.jobs.push", "pq.jobs.push"} {
		c.push(subject, "x")
	}
	for i := range 3 {
		if m := c.next(flood); m.Subject != fmt.Sprint(inbox, ".", i) || string(m.Data) != "x" {
			t.Errorf("%q, %v to %s", m.Data, m.Header, m.Subject)
		}
	}
	for _, answer := range []answers{other, beside} {
		if m := c.next(answer); string(m.Data) != "x" {
			t.Errorf("%q, %v", m.Data, m.Header)
		}
	}
}

// The places of clients that have gone become free although no item arrives.
func TestPlacesOfClientsThatHaveGone(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Limits: bridge.Limits{Waiters: 4}})
	bridge.InterestPatience(c.env.Bridge, testenv.Most)
	gone := c.another()
	for _, lease := range []string{"1s", "1m", "1h"} {
		gone.send("pq.jobs.pop.min", "", "PQ-Wait", "100s", "PQ-Lease", lease)
	}
	stays := c.send("pq.jobs.pop.min", "", "PQ-Wait", "100s")
	c.waiting("jobs", 4)
	gone.Close()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	ended := func() float64 { return c.own()["pq_requests_total{code=408,verb=pop}"] }
	for late := testenv.BeginWait(); ended() != 3; <-look.C {
		if late.Over() {
			t.Fatalf("%g waits are over, want 3", ended())
		}
	}
	if n := c.total(); n != 1 {
		t.Errorf("%d pops wait, want 1", n)
	}
	c.push("pq.jobs.push", "x")
	if m := c.next(stays); string(m.Data) != "x" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
}

// Pops wait for a bounded number of bands. Pops of all priorities are not limited by it.
func TestTooManyBands(t *testing.T) {
	t.Parallel()
	c := serve(t)
	sub := c.listen()
	for i := range protocol.MaxBands {
		m := &nats.Msg{Subject: "pq.jobs.pop.min", Reply: sub.inbox, Header: h("PQ-Wait", "100s", "PQ-Band", fmt.Sprintf("%d..%d", i, i))}
		if err := c.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	c.waiting("jobs", protocol.MaxBands)
	m := c.refused(c.raw("pq.jobs.pop.min", "", "PQ-Wait", "1s", "PQ-Band", "5.."), 409)
	if m.Header.Get("Description") != "Exceeded MaxWaiting" || !strings.Contains(m.Header.Get("Nats-Service-Error"), "bands") {
		t.Errorf("%v", m.Header)
	}
	any := c.send("pq.jobs.pop.min", "", "PQ-Wait", "100s")
	c.waiting("jobs", protocol.MaxBands+1)
	for _, i := range []int{0, protocol.MaxBands / 2, protocol.MaxBands - 1} {
		c.push(fmt.Sprint("pq.jobs.push.", i), strconv.Itoa(i))
		if m := c.next(sub); string(m.Data) != strconv.Itoa(i) {
			t.Fatalf("%q, %v", m.Data, m.Header)
		}
	}
	c.push("pq.jobs.push.1000000", "any")
	if m := c.next(any); string(m.Data) != "any" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
}

// A waiting pop keeps only the needed parts of its message, and its body is bounded. All places together keep no more
// bytes than the requests in flight may have.
//
// Not parallel: it measures the memory of the whole process.
func TestWaitersAreSmall(t *testing.T) {
	c := serve(t)
	const waiters, most = 200, bridge.DefaultBytes / bridge.DefaultWaiters
	object[protocol.Link](c, "pq.jobs.admin.link.hub", `{"to":"hub"}`)
	acks := c.leaseAll("jobs", waiters)
	left := fmt.Sprintf(`{"taker":"hub","left":[%s],"next":%q}`, strings.Join(numbers(1, 1000), ","), strings.Repeat("n", 3<<10))
	total := 0
	for _, tc := range []struct {
		subject, body string
		header        []string
	}{
		{"pq.jobs.pop.min", "", nil},
		{"pq.jobs.pop.min", "", []string{"PQ-Holder", "h"}},
		{"pq.jobs.pop.min", "", []string{"Nats-Msg-Id", "i"}},
		{"pq.jobs.pop.min", "", []string{"traceparent", "p"}},
		{"pq.jobs.pop.min", "", []string{
			"PQ-Holder", strings.Repeat("h", 128), "Nats-Msg-Id", strings.Repeat("i", 1024),
			"traceparent", strings.Repeat("p", 512), "tracestate", strings.Repeat("s", 512),
		}},
		{"pq.jobs.pop.min", `{"holder":"h","msg_id":"i"` + strings.Repeat(" ", 7<<10) + "}", nil},
		{"pq.jobs.peek.min", "", []string{"traceparent", "p"}},
		{"", "+NXT " + strings.Repeat(" ", 7<<10) + `{"holder":"h","msg_id":"i"}`, []string{"traceparent", "p"}},
		{"pq.jobs.link.hub", left, []string{"traceparent", "p"}},
	} {
		rest := c.NewInbox()
		inbox := rest + "." + strings.Repeat("x", 1024-len(rest)-1) // as long as it may be
		c.hear(inbox)
		request := nats.Msg{Subject: tc.subject, Reply: inbox, Data: []byte(tc.body), Header: h(append(tc.header, "PQ-Wait", forever)...)}
		request.Header.Set("X-Ballast", strings.Repeat("x", 32<<10))
		before := heap()
		for i := range waiters {
			if tc.subject == "" {
				request.Subject = acks[i]
			}
			if err := c.PublishMsg(&request); err != nil {
				t.Fatal(err)
			}
			if total++; total%100 == 0 { // with more the bridge would shed load
				c.waiting("jobs", total)
			}
		}
		grown := (heap() - before) / waiters
		if grown > most {
			t.Errorf("%s %.20s %.80q: a pop that waits keeps %d bytes, expected %d at most", tc.subject, tc.body, tc.header, grown, most)
		}
	}
	long := `{"expires":60000000000,"msg_id":"x"` + strings.Repeat(" ", 9<<10) + "}"
	c.refused(c.raw("pq.jobs.pop.min", long), 413)
	c.refused(c.raw("pq.jobs.peek.min", long), 413)
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Pops that wait for other bands do not delay a pop whose item is there. Pops of one band
// are served in order.
func TestWaitersForBands(t *testing.T) {
	t.Parallel()
	c := serve(t)
	high := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Band", "100..")
	low := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Band", "..10")
	c.waiting("jobs", 2)
	c.push("pq.jobs.push.50", "middle")
	c.pop("pq.jobs.pop.min", "")
	c.push("pq.jobs.push.5", "low")
	if m := c.next(low); string(m.Data) != "low" {
		t.Errorf("%q", m.Data)
	}
	c.push("pq.jobs.push.500", "high")
	if m := c.next(high); string(m.Data) != "high" {
		t.Errorf("%q", m.Data)
	}
	// Many bands, with more waiting pops than are tried at a time.
	const n = 500
	sub := c.listen()
	for range n {
		if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: sub.inbox, Header: h("PQ-Wait", forever, "PQ-Band", "1..1")}); err != nil {
			t.Fatal(err)
		}
	}
	other := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Band", "2..2")
	c.waiting("jobs", n+1)
	c.push("pq.jobs.push.2", "2")
	if m := c.next(other); string(m.Data) != "2" {
		t.Errorf("%q", m.Data)
	}
	for range n {
		if err := c.Publish("pq.jobs.push.1", []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	for range n {
		if m := c.next(sub); string(m.Data) != "1" {
			t.Fatalf("%q, %v", m.Data, m.Header)
		}
	}
}

// An item leased to a waiting pop whose client has gone returns.
func TestWaiterGone(t *testing.T) {
	t.Parallel()
	c := serve(t)
	gone := c.another()
	gone.send("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Lease", "1h")
	c.waiting("jobs", 1)
	gone.Close()
	c.push("pq.jobs.push", "x")
	m := c.pop("pq.jobs.pop.min", "", "PQ-Wait", "20s", "PQ-Lease", "1m")
	if m.Header.Get("PQ-Deliveries") != "1" {
		t.Errorf("%v", m.Header)
	}
}

// A repeated pop that waits, twice the same and then served.
func TestWaitWithID(t *testing.T) {
	t.Parallel()
	c := serve(t)
	sub := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever, "Nats-Msg-Id", "a")
	c.waiting("jobs", 1)
	c.push("pq.jobs.push", "x")
	c.push("pq.jobs.push", "y")
	first := c.next(sub)
	again := c.pop("pq.jobs.pop.min", "", "Nats-Msg-Id", "a")
	if string(first.Data) != "x" || string(again.Data) != "x" {
		t.Errorf("%q, then %q", first.Data, again.Data)
	}
}

// Waiting pops cost no goroutine each, and are served in order.
func TestManyWaiters(t *testing.T) {
	c := serve(t)
	sub := c.listen()
	before := runtime.NumGoroutine()
	for i := range bridge.DefaultWaiters {
		m := &nats.Msg{Subject: "pq.jobs.pop.min", Reply: sub.inbox, Header: h("PQ-Wait", "100s", "PQ-Lease", "1h")}
		if i%100 == 0 {
			m.Header.Set("PQ-Band", "5..")
		}
		if err := c.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for c.total() != bridge.DefaultWaiters {
	}
	if more := runtime.NumGoroutine() - before; more > 10 {
		t.Errorf("%d goroutines for %d waiters", more, bridge.DefaultWaiters)
	}
	c.refused(c.raw("pq.jobs.pop.min", "", "PQ-Wait", "1s"), 409)
	for i := range bridge.DefaultWaiters {
		if err := c.Publish("pq.jobs.push.7", []byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range bridge.DefaultWaiters {
		if m := c.next(sub); string(m.Data) != strconv.Itoa(i) {
			t.Fatalf("answer %d: %q, %v", i, m.Data, m.Header)
		}
	}
}
