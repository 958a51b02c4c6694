package bridge_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// ended checks what an answer says of the earlier leases of its item: failures, interruptions, returns.
func (c *client) ended(m *nats.Msg, deliveries string, want ...string) {
	c.Helper()
	got := []string{m.Header.Get("PQ-Failures"), m.Header.Get("PQ-Interruptions"), m.Header.Get("PQ-Returns")}
	if m.Header.Get("PQ-Deliveries") != deliveries || !slices.Equal(got, want) {
		c.Errorf("%s deliveries, and %q ended: expected %s and %q; %v", m.Header.Get("PQ-Deliveries"), got, deliveries, want, m.Header)
	}
}

// How the leases of an item ended is said with its next lease, alone and in a bundle, by get, list, events and metrics, and
// of the dead letter.
func TestEndingsAreShown(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"max_deliveries":2,"backoff":["1ms"]}`)
	id := c.push("pq.jobs.push", "x").ID
	lost, dead := c.hear("pq.jobs.event.lease_lost"), c.hear("pq.jobs.event.dead")
	event := func(of answers) (e protocol.ItemEvent) {
		t.Helper()
		if err := json.Unmarshal(c.next(of).Data, &e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	lease := func() *nats.Msg { return c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Wait", "100s") }

	first := lease()
	c.ended(first, "1", "", "", "")
	c.accepted(c.raw(first.Reply, "-NAK"))
	c.accepted(c.raw(lease().Reply, "+BACK stopped"))
	c.ended(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1ms", "PQ-Wait", "100s"), "3", "1", "", "1")
	if e := event(lost); e.Endings != (protocol.Endings{Failures: 1, Interruptions: 1, Returns: 1}) || e.Deliveries != 3 {
		t.Errorf("the event says %+v", e)
	}
	bundled := c.popBundle("pq.jobs.pop.min", "", "PQ-Bundle", "1", "PQ-Lease", "1h", "PQ-Wait", "100s")[0]
	c.ended(bundled, "4", "1", "1", "1")
	c.ended(c.pop("pq.jobs.get."+id, ""), "4", "1", "1", "1")
	before := time.Now()
	listed := object[protocol.Page](c, "pq.jobs.list", `{"state":"leased"}`).Items[0]
	if listed.Endings != (protocol.Endings{Failures: 1, Interruptions: 1, Returns: 1}) ||
		listed.Since.IsZero() || listed.Since.After(before) || listed.Due.Sub(listed.Since) != time.Hour {
		t.Errorf("listed: %+v", listed)
	}
	c.accepted(c.raw(bundled.Header.Get("PQ-Ack"), "-NAK"))
	if e := event(dead); e.Endings != (protocol.Endings{Failures: 2, Interruptions: 1, Returns: 1}) || e.Reason != "max_deliveries" || e.Deliveries != 4 {
		t.Errorf("the event says %+v", e)
	}
	letter := c.pop("pq.jobs-dead.peek.min", "")
	c.ended(letter, "0", "", "", "")
	if letter.Header.Get("PQ-Dead-Deliveries") != "4" || letter.Header.Get("PQ-Dead-Interruptions") != "1" {
		t.Errorf("the dead letter: %v", letter.Header)
	}
	if d := object[protocol.Page](c, "pq.jobs-dead.list", "").Items[0].Dead; d == nil || d.Interruptions != 1 {
		t.Errorf("the dead letter is listed with %+v", d)
	}
	ended := make(map[string]float64)
	for name, n := range c.metrics() {
		if how, is := strings.CutPrefix(name, "pq_leases_ended_total{how="); is && n > 0 {
			ended[strings.TrimSuffix(how, "}")] = n
		}
	}
	if fmt.Sprint(ended) != "map[back:1 expired:1 nak:2]" {
		t.Errorf("ended are %v", ended)
	}
}

// An import takes how the leases of its item ended, and a push drops it.
func TestImportTakesEndings(t *testing.T) {
	t.Parallel()
	c := serve(t)
	header := []string{"PQ-Deliveries", "6", "PQ-Failures", "1", "PQ-Interruptions", "2", "PQ-Returns", "3", "PQ-Dead-Reason", "late", "PQ-Origin", "o", "PQ-Origin-Id", "i", "PQ-Dead-Interruptions", "4"}
	c.push("pq.jobs.push", "x", header...)
	m := c.pop("pq.jobs.pop.min", "")
	c.ended(m, "0", "", "", "")
	c.acknowledged(c.ask("pq.jobs.import", "x", append([]string{"PQ-Id", m.Header.Get("PQ-Id")}, header...)...))
	m = c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	c.ended(m, "7", "1", "2", "3")
	if m.Header.Get("PQ-Dead-Interruptions") != "4" {
		t.Errorf("%v", m.Header)
	}
	for _, name := range []string{"PQ-Failures", "PQ-Interruptions", "PQ-Returns", "PQ-Dead-Interruptions"} {
		c.refused(c.ask("pq.jobs.import", "x", "PQ-Id", m.Header.Get("PQ-Id"), name, "-1"), 400)
	}
}

// A worker that has died before the answer reached it costs the item nothing. If the answer was in its socket, the lease
// runs out, which is an interruption.
func TestDiesBetweenServeAndReceive(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push", "x")
	worker, err := net.Dial("tcp", strings.TrimPrefix(c.env.NATS.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	const head = "NATS/1.0\r\nPQ-Lease: 100ms\r\n\r\n"
	pop := fmt.Sprintf("HPUB pq.jobs.pop.min _INBOX.worker %d %d\r\n%s\r\n", len(head), len(head), head)
	send := func(text string) {
		t.Helper()
		if _, err := io.WriteString(worker, text); err != nil {
			t.Fatal(err)
		}
	}
	send(`CONNECT {"verbose":false,"headers":true,"no_responders":true}` + "\r\n" + pop) // it listens no more
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Wait", forever)
	for m.Header.Get("PQ-Fence") == "1" { // the worker came later
		c.accepted(c.raw(m.Reply, "+BACK"))
		m = c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Wait", forever)
	}
	if m.Header.Get("PQ-Interruptions")+m.Header.Get("PQ-Failures") != "" {
		t.Errorf("what nobody received counts: %v", m.Header)
	}
	c.accepted(c.raw(m.Reply, "+ACK"))

	lost := c.hear("pq.jobs.event.lease_lost")
	c.push("pq.jobs.push", "y")
	send("SUB _INBOX.worker 1\r\n" + pop)
	c.next(lost)
	c.ended(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Wait", forever), "2", "", "1", "")
}

// Two connections that listen on one inbox both receive an item. The first word about it counts.
func TestTwoConnectionsOneInbox(t *testing.T) {
	t.Parallel()
	c := serve(t)
	inbox := c.NewInbox()
	listen := func() (leave func(), came chan *nats.Msg) {
		t.Helper()
		nc := c.env.NATS.Connect(t)
		came = make(chan *nats.Msg, 10)
		sub, err := nc.ChanSubscribe(inbox, came)
		if err == nil {
			err = nc.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			t.Helper()
			if err := cmp.Or(sub.Unsubscribe(), nc.Flush()); err != nil {
				t.Fatal(err)
			}
		}, came
	}
	leaveFirst, first := listen()
	leaveSecond, second := listen()
	pop := func() {
		t.Helper()
		if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: inbox, Header: h("PQ-Lease", "1h", "PQ-Wait", forever)}); err != nil {
			t.Fatal(err)
		}
	}
	pop()
	c.waiting("jobs", 1)
	c.push("pq.jobs.push", "x")
	ack := (<-first).Reply
	if other := (<-second).Reply; other != ack {
		t.Errorf("one lease has the subjects %s and %s", ack, other)
	}
	c.accepted(c.raw(ack, "+BACK"))
	c.lost(c.raw(ack, "-NAK"), "returned")
	c.lost(c.raw(ack, "+BACK"), "returned")

	leaveFirst()
	pop()
	m := <-second
	c.ended(m, "2", "", "", "1")
	c.accepted(c.raw(m.Reply, "+BACK"))
	leaveSecond()
	if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: inbox, Header: h("PQ-Lease", "1h")}); err != nil {
		t.Fatal(err)
	}
	m = c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Wait", forever)
	c.ended(m, "3", "", "", "2")
	if m.Header.Get("PQ-Fence") != "4" {
		t.Errorf("%v: expected that the lease before it reached nobody", m.Header)
	}
}

// A worker that does not read is cut off with its answers unread: each of its leases is an interruption, and no item is
// dead.
func TestSlowConsumerIsCut(t *testing.T) {
	nightly.Only(t, "TestClientThatDoesNotRead has a client cut off, and TestEndingsAreShown counts interruptions")
	t.Parallel()
	srv := testenv.NATS(t, func(o *server.Options) { o.MaxPending, o.WriteDeadline = 1<<20, time.Second })
	c, _ := bridgeAt(t, srv, srv.URL())
	const n = 100
	for range n {
		c.push("pq.jobs.push", string(make([]byte, 64<<10)))
	}
	leaseUnread(t, srv, n, "3s", func() { c.info("jobs") })
	interrupted := 0
	for range n {
		m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Wait", forever)
		switch m.Header.Get("PQ-Interruptions") + m.Header.Get("PQ-Failures") + m.Header.Get("PQ-Returns") {
		case "": // nobody received it
		case "1":
			interrupted++
		default:
			t.Errorf("%v", m.Header)
		}
	}
	if interrupted == 0 {
		t.Error("no lease was interrupted")
	}
	if i := c.info("jobs"); i.Leased != n {
		t.Errorf("%+v, expected all items", i)
	}
}

// A bundle that nobody received goes back in its order and is no delivery. Half of the next one is handed back, and half
// acknowledged.
func TestBundleUnreceived(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const n = 100
	var frames []string
	for i := range n {
		frames = append(frames, frame(fmt.Sprint(i)))
	}
	c.pushBundle("pq.jobs.push", frames)
	if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: c.NewInbox(), Header: h("PQ-Bundle", fmt.Sprint(n), "PQ-Lease", "1h")}); err != nil {
		t.Fatal(err)
	}
	for back := 0; back < n; { // on its way
		back = 0
		for _, item := range object[protocol.Page](c, "pq.jobs.list", fmt.Sprintf(`{"limit":%d}`, n)).Items {
			back += int(item.Fence)
		}
	}
	lease := func(n int) []*nats.Msg {
		t.Helper()
		return c.popBundle("pq.jobs.pop.min", "", "PQ-Bundle", fmt.Sprint(n), "PQ-Lease", "1h")
	}
	var lines []string
	for i, m := range lease(n) {
		c.ended(m, "1", "", "", "")
		if string(m.Data) != fmt.Sprint(i) || m.Header.Get("PQ-Fence") != "2" {
			t.Fatalf("item %d is %q, %v", i, m.Data, m.Header)
		}
		lines = append(lines, m.Header.Get("PQ-Ack")+[]string{" +BACK", " +ACK"}[i%2])
	}
	c.results(c.settleAll(settles, lines...), slices.Repeat([]string{"+OK"}, n)...)
	for i, m := range lease(n / 2) {
		c.ended(m, "2", "", "", "1")
		if string(m.Data) != fmt.Sprint(2*i) {
			t.Errorf("item %d is %q", i, m.Data)
		}
	}
	if i := c.info("jobs"); i.Ready != 0 || i.Leased != n/2 {
		t.Errorf("%+v", i)
	}
}

// The next item of a +NXT whose worker has died goes back, and the first one is done.
func TestNextUnreceived(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push", "first")
	first := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	c.push("pq.jobs.push", "second")
	if err := c.PublishMsg(&nats.Msg{Subject: first.Reply, Reply: c.NewInbox(), Data: []byte("+NXT")}); err != nil {
		t.Fatal(err)
	}
	c.lost(c.raw(first.Reply, "+WPI"), "gone") // it is done
	second := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Wait", forever)
	if string(second.Data) != "second" || second.Header.Get("PQ-Fence") != "2" {
		t.Errorf("%q, %v", second.Data, second.Header)
	}
	c.ended(second, "1", "", "", "")
	if i := c.info("jobs"); i.Ready+i.Delayed != 0 || i.Leased != 1 {
		t.Errorf("%+v", i)
	}
}
