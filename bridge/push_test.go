package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// Every way to give a priority, and none.
func TestPriority(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, tc := range []struct {
		subject string
		header  []string
		want    int64
	}{
		{"pq.jobs.push", nil, 0},
		{"pq.jobs.push.5", nil, 5},
		{"pq.jobs.push.-5", nil, -5},
		{"pq.jobs.push", []string{"PQ-Priority", "7"}, 7},
		{"pq.jobs.push.7", []string{"PQ-Priority", "7"}, 7},
		{"pq.jobs.push.9223372036854775807", nil, math.MaxInt64},
		{"pq.jobs.push.-9223372036854775808", nil, math.MinInt64},
		{"pq.jobs.push", []string{"PQ-Priority", "-9223372036854775808"}, math.MinInt64},
	} {
		ack := c.push(tc.subject, "x", tc.header...)
		if ack.Priority != tc.want || ack.Stream != "jobs" || ack.Type != "io.pq.v1.push_response" || ack.Seq <= 0 || ack.Duplicate {
			t.Errorf("push %s %v: %+v, want priority %d", tc.subject, tc.header, ack, tc.want)
		}
		m := c.pop("pq.jobs.pop.min", "")
		if m.Header.Get("PQ-Id") != ack.ID || m.Header.Get("PQ-Priority") != fmt.Sprint(tc.want) {
			t.Errorf("popped %v, pushed %+v", m.Header, ack)
		}
	}
}

// Items are popped in the documented order, from either end.
func TestOrder(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"min", "max"} {
		t.Run(end, func(t *testing.T) {
			c := serve(t)
			const n = 600
			random := rand.New(rand.NewPCG(1, 2))
			type item struct {
				priority int64
				number   int
			}
			items := []item{{math.MinInt64, 0}, {math.MaxInt64, 1}}
			for i := len(items); i < n; i++ {
				items = append(items, item{random.Int64N(101) - 50, i})
			}
			sub := c.listen()
			for _, it := range items {
				if err := c.PublishRequest(fmt.Sprintf("pq.jobs.push.%d", it.priority), sub.inbox, []byte(strconv.Itoa(it.number))); err != nil {
					t.Fatal(err)
				}
			}
			for range items {
				c.acknowledged(c.next(sub))
			}
			// pop.min gives the oldest first, pop.max the newest.
			slices.SortStableFunc(items, func(a, b item) int {
				switch {
				case a.priority < b.priority:
					return -1
				case a.priority > b.priority:
					return 1
				}
				return 0
			})
			if end == "max" {
				slices.Reverse(items)
			}
			// Some wait for each answer, most do not.
			const alone = 100
			for range n - alone {
				if err := c.PublishRequest("pq.jobs.pop."+end, sub.inbox, nil); err != nil {
					t.Fatal(err)
				}
			}
			for i, want := range items {
				var m *nats.Msg
				if i < n-alone {
					m = c.next(sub)
				} else {
					m = c.pop("pq.jobs.pop."+end, "")
				}
				if string(m.Data) != strconv.Itoa(want.number) || m.Header.Get("PQ-Priority") != strconv.FormatInt(want.priority, 10) {
					t.Fatalf("pop %d: item %s with %s, want %d with %d", i, m.Data, m.Header.Get("PQ-Priority"), want.number, want.priority)
				}
			}
			c.refused(c.ask("pq.jobs.pop."+end, ""), 404, "empty")
		})
	}
}

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

// A popped item can be pushed again as it is.
func TestForward(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push.8", "x", "X-Mine", "1")
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	c.acknowledged(c.askMsg(&nats.Msg{Subject: "pq.next.push", Data: m.Data, Header: m.Header}))
	again := c.pop("pq.next.pop.min", "")
	if string(again.Data) != "x" || again.Header.Get("X-Mine") != "1" || again.Header.Get("PQ-Priority") != "8" || again.Header.Get("PQ-Ack") != "" {
		t.Errorf("forwarded as %q, %v", again.Data, again.Header)
	}
}

// The largest payload can be popped, leased, listed, moved and made a dead letter.
func TestLargestPayload(t *testing.T) {
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

func TestDelay(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, header := range [][]string{
		{"PQ-Delay", "1h"},
		{"PQ-Not-Before", time.Now().Add(time.Hour).Format(time.RFC3339)},
	} {
		c.push("pq.jobs.push", "later", header...)
		c.refused(c.ask("pq.jobs.pop.min", ""), 404, "delayed")
	}
	c.push("pq.jobs.push", "now", "PQ-Not-Before", "2001-02-03T04:05:06Z")
	c.push("pq.jobs.push", "soon", "PQ-Delay", "30ms")
	if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != "now" {
		t.Errorf("popped %q", m.Data)
	}
	if m := c.pop("pq.jobs.pop.min", "", "PQ-Wait", "20s"); string(m.Data) != "soon" {
		t.Errorf("popped %q", m.Data)
	}
	if i := c.info("jobs"); i.Delayed != 2 || i.Ready != 0 {
		t.Errorf("%+v", i)
	}
}

// Both of nats.go's JetStream interfaces publish to a queue unchanged.
func TestJetStreamPublish(t *testing.T) {
	t.Parallel()
	c := serve(t)
	old, err := c.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(c.Conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience())
	defer cancel()
	first, err := old.Publish("pq.jobs.push.5", []byte("a"), nats.MsgId("m1"), nats.ExpectStream("jobs"))
	if err != nil || first.Stream != "jobs" || first.Sequence != 1 || first.Duplicate {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := js.Publish(ctx, "pq.jobs.push.5", []byte("a"), jetstream.WithMsgID("m1"), jetstream.WithExpectStream("jobs"))
	if err != nil || second.Sequence != 1 || !second.Duplicate {
		t.Fatalf("%+v, %v", second, err)
	}
	future, err := js.PublishAsync("pq.jobs.push", []byte("b"))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case ack := <-future.Ok():
		if ack.Sequence != 2 {
			t.Errorf("%+v", ack)
		}
	case err := <-future.Err():
		t.Fatal(err)
	}
	if _, err := old.Publish("pq.jobs.push.x", nil); err == nil {
		t.Error("a priority of x was accepted")
	} else if api := new(nats.APIError); !errors.As(err, &api) || api.Code != 400 || api.ErrorCode != 30400 {
		t.Errorf("%v", err)
	}
	if _, err := js.Publish(ctx, "pq.jobs.push", nil, jetstream.WithExpectLastSequence(4)); err == nil {
		t.Error("an expected sequence was ignored")
	} else if api := new(jetstream.APIError); !errors.As(err, &api) || api.Code != 400 {
		t.Errorf("%v", err)
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	c := serve(t)
	first := c.push("pq.jobs.push.3", "x", "Nats-Msg-Id", "a")
	again := c.push("pq.jobs.push.4", "y", "Nats-Msg-Id", "a")
	if !again.Duplicate || again.ID != first.ID || again.Seq != first.Seq {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if other := c.push("pq.other.push", "x", "Nats-Msg-Id", "a"); other.Duplicate {
		t.Error("ids are shared between queues")
	}
	c.pop("pq.jobs.pop.min", "")
	if third := c.push("pq.jobs.push", "x", "Nats-Msg-Id", "a"); !third.Duplicate {
		t.Error("the id was forgotten with the item")
	}
	// In one batch, too.
	sub := c.listen()
	for range 100 {
		if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.push", Reply: sub.inbox, Header: h("Nats-Msg-Id", "b")}); err != nil {
			t.Fatal(err)
		}
	}
	fresh := 0
	for range 100 {
		if !c.acknowledged(c.next(sub)).Duplicate {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d of 100 equal messages were new", fresh)
	}
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

func TestFullQueue(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"max_length":2}`)
	c.push("pq.jobs.push.1", "a")
	c.push("pq.jobs.push.2", "b")
	c.refused(c.ask("pq.jobs.push.0", "c"), 429, "full")
	c.ask("pq.jobs.admin.config", `{"overflow":"evict"}`)
	if ack := c.push("pq.jobs.push.0", "c"); ack.Evicted {
		t.Errorf("%+v", ack)
	}
	if ack := c.push("pq.jobs.push.9", "d"); !ack.Evicted {
		t.Errorf("%+v", ack)
	}
	for _, want := range []string{"c", "a"} {
		if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != want {
			t.Errorf("popped %q, want %q", m.Data, want)
		}
	}
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
