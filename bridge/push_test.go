package bridge_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// Pipelined pushes of one connection keep their order, with either form of the subject.
func TestPipelinedPushesKeepOrder(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const n = 10_000
	sub := c.listen()
	for i := range n {
		m := &nats.Msg{Subject: "pq.jobs.push.5", Reply: sub.inbox, Data: []byte(strconv.Itoa(i))}
		if i%3 == 0 {
			m.Subject, m.Header = "pq.jobs.push", h("PQ-Priority", "5")
		}
		if err := c.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		if ack := c.acknowledged(c.next(sub)); ack.Seq != int64(i+1) {
			t.Fatalf("acknowledgement %d has seq %d", i, ack.Seq)
		}
	}
	for popped := 0; popped < n; {
		items := c.batch(c.send("pq.jobs.pop.min", "1000"))
		for _, m := range items {
			if string(m.Data) != strconv.Itoa(popped) {
				t.Fatalf("pop %d gave item %s", popped, m.Data)
			}
			popped++
		}
	}
}

func TestContentIsUnchanged(t *testing.T) {
	t.Parallel()
	c := serve(t)
	random := rand.NewChaCha8([32]byte{1})
	for _, size := range []int{0, 1, 100, 32 << 10, 33 << 10, 100_000, 900_000, 1<<20 - 1300} {
		payload := make([]byte, size)
		random.Read(payload)
		header := nats.Header{}
		header["X-Multi"] = []string{"one", "two", ""}
		header["traceparent"] = []string{"00-abc-def-01"}
		header["X-Text"] = []string{"käse: \"a, b\"; =?"}
		header["Nats-Rollup"] = []string{"all"}
		sent := nats.Header{}
		for k, v := range header {
			sent[k] = v
		}
		// Headers of the push itself, and headers of answers, are dropped.
		for _, gone := range []string{"PQ-Id", "PQ-Deliveries", "PQ-Fence", "PQ-Ack", "PQ-Lease-Expires", "PQ-Num-Pending",
			"PQ-State", "PQ-Reason", "Nats-Time-Stamp", "Nats-Service-Error", "Nats-Service-Error-Code", "PQ-Dead-Reason", "PQ-Origin",
			"PQ-Origin-Id", "Nats-Request-Info", "Nats-Trace-Hop"} {
			sent.Set(gone, "gone")
		}
		sent.Set("Status", "200")
		sent.Set("Nats-Msg-Id", fmt.Sprint("id", size))
		sent.Set("Nats-Expected-Stream", "jobs")
		sent.Set("PQ-Priority", "3")
		sent.Set("PQ-TTL", "1h")
		ack := c.acknowledged(c.askMsg(&nats.Msg{Subject: "pq.jobs.push", Data: payload, Header: sent}))
		for _, verb := range []string{"peek", "pop"} {
			m := c.ask("pq.jobs."+verb+".max", "")
			if !bytes.Equal(m.Data, payload) {
				t.Errorf("%s: the payload of %d bytes came back with %d", verb, size, len(m.Data))
			}
			ours := map[string]string{"PQ-Id": ack.ID, "PQ-Priority": "3", "PQ-Deliveries": "0", "PQ-Num-Pending": "0"}
			for key, want := range ours {
				if got := m.Header.Values(key); len(got) != 1 || got[0] != want {
					t.Errorf("%s: %s is %q, want %q", verb, key, got, want)
				}
				delete(m.Header, key)
			}
			if at, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp")); err != nil || time.Since(at) > testenv.Patience() {
				t.Errorf("%s: time stamp %s: %v", verb, at, err)
			}
			delete(m.Header, "Nats-Time-Stamp")
			for key, want := range header {
				if !slices.Equal(m.Header[key], want) {
					t.Errorf("%s: header %s is %q, want %q", verb, key, m.Header[key], want)
				}
				delete(m.Header, key)
			}
			if len(m.Header) > 0 {
				t.Errorf("%s: further headers %v", verb, m.Header)
			}
		}
	}
}

// The largest payload can be popped, leased, listed, moved and made a dead letter.
func TestLargestPayload(t *testing.T) {
	nightly.Only(t, "TestLargestItemIsAnswered has the largest item of most servers, and TestContentOfAnySize that of the core")
	t.Parallel()
	env := &testenv.Bridged{
		NATS:  testenv.NATS(t, func(o *server.Options) { o.MaxPayload = 8<<20 + 64<<10 }),
		Store: testenv.Store(t),
	}
	var err error
	env.Bridge, err = bridge.Start(t.Context(), env.NATS.Connect(t, bridge.ConnectOptions(nil)...), env.Store, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &client{TB: t, Conn: env.NATS.Connect(t), env: env}
	defer c.drain(env.Bridge)
	payload := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{1}).Read(payload)
	c.refused(c.ask("pq.jobs.push", string(payload)+"x"), 413)
	c.push("pq.jobs.push", string(payload), "X-Mine", "1")
	same := func(m *nats.Msg) *nats.Msg {
		t.Helper()
		if !bytes.Equal(m.Data, payload) || m.Header.Get("X-Mine") != "1" {
			t.Fatalf("%d bytes, %v", len(m.Data), m.Header)
		}
		return m
	}
	same(c.ask("pq.jobs.peek.min", ""))
	m := same(c.ask("pq.jobs.pop.min", "", "PQ-Lease", "1m"))
	same(c.ask("pq.jobs.get."+m.Header.Get("PQ-Id"), ""))
	c.accepted(c.raw(m.Reply, "-NAK"))
	m = same(c.ask("pq.jobs.pop.max", "", "PQ-Lease", "1m"))
	c.accepted(c.raw(m.Reply, "+TERM"))
	same(c.ask("pq.jobs-dead.pop.min", "", "Nats-Msg-Id", "a"))
	same(c.ask("pq.jobs-dead.pop.min", "", "Nats-Msg-Id", "a"))
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	c := serve(t)
	m := c.refused(c.ask("pq.jobs.push", strings.Repeat("x", 1<<20-1000)), 413)
	if !strings.Contains(string(m.Data), `"err_code":30413`) || !strings.Contains(m.Header.Get("Nats-Service-Error"), "1047552") {
		t.Errorf("answer %q, %v", m.Data, m.Header)
	}
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "unknown")
}

// A push without a reply subject is stored if possible. Otherwise an event reports it,
// together with others within the same second.
func TestFireAndForget(t *testing.T) {
	t.Parallel()
	c := serve(t)
	events := c.hear("pq.*.event.error")
	const n = 5000
	for i := range n {
		if err := c.Publish("pq.jobs.push", []byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	c.push("pq.jobs.push", "last")
	if i := c.info("jobs"); i.Ready != n+1 {
		t.Errorf("%d items of %d arrived", i.Ready, n+1)
	}
	for range 10 {
		if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.push", Header: h("PQ-Delay", "soon")}); err != nil {
			t.Fatal(err)
		}
	}
	var event struct {
		Type, Queue, Error string
		Code, Count        int
	}
	count := 0
	for count < 10 {
		event.Count = 0
		decode(t, c.next(events).Data, &event)
		if event.Type != "io.pq.v1.event.error" || event.Queue != "jobs" || event.Code != 400 || !strings.Contains(event.Error, "PQ-Delay") {
			t.Fatalf("event %+v", event)
		}
		count += event.Count
	}
	if count != 10 {
		t.Errorf("%d lost pushes were reported, 10 were sent", count)
	}
}

// Requests beyond the limits are refused at once, and every request is answered.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Limits: bridge.Limits{Requests: 10}})
	sub := c.listen()
	const n = 3000
	for range n {
		if err := c.PublishRequest("pq.jobs.push", sub.inbox, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	stored := 0
	for range n {
		m := c.next(sub)
		if m.Header == nil {
			c.acknowledged(m)
			stored++
			continue
		}
		c.refused(m, 429, "busy")
	}
	if stored == 0 || stored == n {
		t.Errorf("%d of %d pushes were stored", stored, n)
	}
	if i := c.info("jobs"); i.Ready != int64(stored) {
		t.Errorf("%d pushes were acknowledged, %d items are there", stored, i.Ready)
	}
	// A single request is served however large it is.
	small := serve(t, bridge.Options{Limits: bridge.Limits{Bytes: 100}})
	small.push("pq.jobs.push", strings.Repeat("x", 1000))
}

// An event also reports a push without a reply subject whose subject is malformed.
func TestMalformedPushWithoutReplyIsReported(t *testing.T) {
	t.Parallel()
	c := serve(t)
	events := c.hear("pq.*.event.error")
	if err := c.Publish("pq.jobs.push.high", []byte("x")); err != nil {
		t.Fatal(err)
	}
	var event struct {
		Queue, Error string
		Code         int
	}
	decode(t, c.next(events).Data, &event)
	if event.Queue != "jobs" || event.Code != 400 || !strings.Contains(event.Error, "high") {
		t.Errorf("event %+v", event)
	}
}
