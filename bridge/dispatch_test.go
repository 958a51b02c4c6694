package bridge_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// An item that no client received returns at once, without counting as a delivery.
func TestUnreceivedItemReturns(t *testing.T) {
	t.Parallel()
	c := serve(t)
	// A client's message that looks like the server's settles nothing without a token.
	ack := c.lease("held").Reply
	forged := ack[:strings.LastIndexByte(ack, '.')+1] + "forged"
	if err := c.PublishMsg(&nats.Msg{Subject: forged, Header: h("Status", "503")}); err != nil {
		t.Fatal(err)
	}
	c.push("pq.jobs.push", "x")
	gone := c.NewInbox()
	if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: gone, Header: h("PQ-Lease", "1h")}); err != nil {
		t.Fatal(err)
	}
	m := c.pop("pq.jobs.pop.min", "", "PQ-Wait", "20s", "PQ-Lease", "1h")
	if m.Header.Get("PQ-Deliveries") != "1" || m.Header.Get("PQ-Fence") != "2" {
		t.Errorf("%v", m.Header)
	}
	c.accepted(c.raw(m.Reply, "+ACK"))
	c.inFlight("settlement", 0)
	settlements := 0.0
	for name, n := range c.metrics() {
		if strings.HasPrefix(name, "pq_requests_total{") && strings.Contains(name, "verb=ack") {
			settlements += n
		}
	}
	if settlements != 2 {
		t.Errorf("%g settlements, expected the return and the acknowledgement", settlements)
	}
	if rate := c.info("jobs").Rates["settle"]; rate > 1.5/60 {
		t.Errorf("%g settlements a second, expected that of the acknowledgement alone", rate)
	}
}

// While the bridge drains, the subscription to signals ends before the one to
// settlements, which then receives them.
func TestUnreceivedItemReturnsDuringDrain(t *testing.T) {
	t.Parallel()
	c := serve(t)
	m := c.lease("x")
	if err := bridge.ReceiveDuringDrain(c.env.Bridge, c.env.Store.Secret(), &nats.Msg{Subject: m.Reply, Header: h("Status", "503")}); err != nil {
		t.Fatal(err)
	}
	if back := c.pop("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Lease", "1h"); back.Header.Get("PQ-Fence") != "2" || back.Header.Get("PQ-Deliveries") != "1" {
		t.Errorf("%q, %v", back.Data, back.Header)
	}
}

// An item of a repeated pop does not return because one of the answers was not received.
// It returns when none was.
func TestOneOfTwoAnswersReceived(t *testing.T) {
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
	// The return of a later item shows that the bridge has handled the first signal.
	c.push("pq.jobs.push.2", "given back")
	toNobody("PQ-Lease", "1h")
	back := c.pop("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Lease", "1h")
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
	if m := c.pop("pq.other.pop.min", "", "PQ-Wait", forever, "PQ-Lease", "1h"); string(m.Data) != "for nobody" || m.Header.Get("PQ-Deliveries") != "1" {
		t.Errorf("%q came back, %v", m.Data, m.Header)
	}
}

// A consumer that forges the server's message keeps its item alive no longer than the bound of returns, and those that
// the item has used elsewhere count.
func TestForgedReturns(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.push("pq.other.push", "poison").ID
	c.acknowledged(c.ask("pq.jobs.import", "poison", "PQ-Id", id, "PQ-Returns", strconv.Itoa(fdbpq.MaxReturns-2)))
	c.ask("pq.jobs.admin.config", `{"max_deliveries":2}`)
	dead := c.hear("pq.jobs.event.dead")
	for lease, want := range []string{"", "", "", "1"} {
		m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Wait", "100s")
		if got := m.Header.Get("PQ-Interruptions"); got != want || m.Header.Get("PQ-Failures") != "" {
			t.Errorf("lease %d: %v, expected %q interruptions", lease+1, m.Header, want)
		}
		if err := c.PublishMsg(&nats.Msg{Subject: m.Reply, Header: h("Status", "503")}); err != nil {
			t.Fatal(err)
		}
	}
	var e protocol.ItemEvent
	if err := json.Unmarshal(c.next(dead).Data, &e); err != nil || e.Reason != "interruptions" || e.Interruptions != 2 {
		t.Errorf("the event says %+v, %v", e, err)
	}
}
