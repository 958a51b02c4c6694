package clients_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// Everything that clients do with nats.go, with both of its request styles.
func TestGoClient(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	for style, options := range map[string][]nats.Option{
		"shared inbox":       nil,
		"inbox of their own": {nats.UseOldRequestStyle()},
	} {
		t.Run(style, func(t *testing.T) {
			nc := p.Connect(t, options...)
			for i, check := range []struct {
				name string
				run  func(goClient)
			}{
				{"publish with the JetStream context", goClient.publishOld},
				{"publish with the jetstream package", goClient.publishNew},
				{"settle with the methods of messages", goClient.settle},
				{"AckSync of a lost lease", goClient.settleLost},
				{"batch", goClient.batch},
				{"wait", goClient.wait},
				{"errors", goClient.errors},
			} {
				t.Run(check.name, func(t *testing.T) {
					check.run(goClient{T: t, nc: nc, queue: fmt.Sprintf("%s-%d", style[:5], i)})
				})
			}
		})
	}
	p.Stop(t)
}

// goClient is a client with a queue of its own.
type goClient struct {
	*testing.T
	nc    *nats.Conn
	queue string
}

func (c goClient) subject(verb string) string { return "pq." + c.queue + "." + verb }

func (c goClient) ask(verb, body string, header ...string) *nats.Msg {
	c.Helper()
	m := &nats.Msg{Subject: c.subject(verb), Data: []byte(body), Header: make(nats.Header)}
	for pair := range slices.Chunk(header, 2) {
		m.Header.Add(pair[0], pair[1])
	}
	reply, err := c.nc.RequestMsg(m, testenv.Patience())
	if err != nil {
		c.Fatalf("%s: %v", m.Subject, err)
	}
	return reply
}

func (c goClient) lease() *nats.Msg {
	c.Helper()
	m := c.ask("pop.min", "", "PQ-Lease", "1m", "PQ-Wait", "20s")
	if !testenv.IsItem(m) || m.Reply == "" {
		c.Fatalf("expected a leased item, found %v %s", m.Header, m.Data)
	}
	return m
}

// counts are how many items are ready, leased and delayed.
func (c goClient) counts() [3]int {
	c.Helper()
	var info struct{ Ready, Leased, Delayed int }
	if err := json.Unmarshal(c.ask("info", "").Data, &info); err != nil {
		c.Fatal(err)
	}
	return [3]int{info.Ready, info.Leased, info.Delayed}
}

// await waits for the effect of a message without an answer.
func (c goClient) await(want [3]int) {
	c.Helper()
	got := c.counts()
	for late := testenv.BeginWait(); got != want; got = c.counts() {
		if late.Over() {
			c.Fatalf("ready, leased, delayed are %v, expected %v", got, want)
		}
	}
}

func (c goClient) publishOld() {
	js, err := c.nc.JetStream(nats.MaxWait(testenv.Patience()))
	if err != nil {
		c.Fatal(err)
	}
	for attempt := range 2 {
		ack, err := js.Publish(c.subject("push.5"), []byte("a"), nats.MsgId("a"), nats.ExpectStream(c.queue))
		if err != nil || ack.Stream != c.queue || ack.Sequence != 1 || ack.Duplicate != (attempt > 0) {
			c.Errorf("attempt %d: %+v, %v", attempt, ack, err)
		}
	}
	m := &nats.Msg{Subject: c.subject("push"), Data: []byte("b"), Header: nats.Header{"PQ-Priority": {"-5"}}}
	if ack, err := js.PublishMsg(m); err != nil || ack.Sequence != 2 {
		c.Errorf("%+v, %v", ack, err)
	}
	const n = 100
	var futures []nats.PubAckFuture
	for i := range n {
		future, err := js.PublishAsync(c.subject("push.7"), fmt.Append(nil, i))
		if err != nil {
			c.Fatal(err)
		}
		futures = append(futures, future)
	}
	for i, future := range futures {
		select {
		case ack := <-future.Ok():
			if ack.Sequence != uint64(3+i) {
				c.Errorf("push %d: %+v", i, ack)
			}
		case err := <-future.Err():
			c.Errorf("push %d: %v", i, err)
		}
	}
	want := []string{"b", "a"}
	for i := range n {
		want = append(want, fmt.Sprint(i))
	}
	if got := pqd.Drain(c.T, c.nc, c.queue); !slices.Equal(got, want) {
		c.Errorf("popped %q, expected %q", got, want)
	}
	var refused *nats.APIError
	if _, err := js.Publish(c.subject("push.high"), nil); !errors.As(err, &refused) || refused.Code != 400 || refused.ErrorCode != 30400 {
		c.Errorf("a priority that is none: %v", err)
	}
}

func (c goClient) publishNew() {
	js, err := jetstream.New(c.nc)
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.Context(), testenv.Patience())
	defer cancel()
	for attempt := range 2 {
		ack, err := js.Publish(ctx, c.subject("push.5"), []byte("a"), jetstream.WithMsgID("a"), jetstream.WithExpectStream(c.queue))
		if err != nil || ack.Stream != c.queue || ack.Sequence != 1 || ack.Duplicate != (attempt > 0) {
			c.Errorf("attempt %d: %+v, %v", attempt, ack, err)
		}
	}
	future, err := js.PublishMsgAsync(&nats.Msg{Subject: c.subject("push"), Data: []byte("b")})
	if err != nil {
		c.Fatal(err)
	}
	select {
	case ack := <-future.Ok():
		if ack.Sequence != 2 {
			c.Errorf("%+v", ack)
		}
	case err := <-future.Err():
		c.Error(err)
	}
	if got := pqd.Drain(c.T, c.nc, c.queue); !slices.Equal(got, []string{"b", "a"}) {
		c.Errorf("popped %q", got)
	}
	var refused *jetstream.APIError
	if _, err := js.Publish(ctx, c.subject("push"), nil, jetstream.WithExpectLastSequence(1)); !errors.As(err, &refused) || refused.Code != 400 {
		c.Errorf("an expected sequence: %v", err)
	}
}

func (c goClient) settle() {
	for _, tc := range []struct {
		name   string
		settle func(*nats.Msg) error
		left   [3]int // ready, leased, delayed
		dead   bool
	}{
		{"Ack", func(m *nats.Msg) error { return m.Ack() }, [3]int{0, 0, 0}, false},
		{"AckSync", func(m *nats.Msg) error { return m.AckSync(nats.AckWait(testenv.Patience())) }, [3]int{0, 0, 0}, false},
		{"Nak", func(m *nats.Msg) error { return m.Nak() }, [3]int{1, 0, 0}, false},
		{"NakWithDelay", func(m *nats.Msg) error { return m.NakWithDelay(time.Hour) }, [3]int{0, 0, 1}, false},
		{"InProgress", func(m *nats.Msg) error { return m.InProgress() }, [3]int{0, 1, 0}, false},
		{"Term", func(m *nats.Msg) error { return m.Term() }, [3]int{0, 0, 0}, true},
	} {
		pqd.Push(c.T, c.nc, c.queue, 1, tc.name)
		if err := tc.settle(c.lease()); err != nil {
			c.Errorf("%s: %v", tc.name, err)
		}
		c.await(tc.left)
		if tc.dead {
			if dead := pqd.Pop(c.T, c.nc, c.queue+"-dead", "min"); dead != tc.name {
				c.Errorf("%s: %q is dead", tc.name, dead)
			}
		}
		c.ask("admin.purge", "")
	}
}

func (c goClient) settleLost() {
	pqd.Push(c.T, c.nc, c.queue, 1, "x")
	m := c.lease()
	c.ask("remove."+m.Header.Get("PQ-Id"), "")
	if err := m.AckSync(nats.AckWait(testenv.Patience())); !errors.Is(err, nats.ErrNoResponders) {
		c.Errorf("AckSync of a lost lease: %v, expected %v", err, nats.ErrNoResponders)
	}
}

func (c goClient) batch() {
	for i := range 5 {
		pqd.Push(c.T, c.nc, c.queue, i, fmt.Sprint(i))
	}
	inbox := c.nc.NewInbox()
	replies, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		c.Fatal(err)
	}
	defer replies.Unsubscribe()
	// read reads up to the first message that is no item, and shows that too.
	read := func(body string) (seen []string) {
		if err := c.nc.PublishRequest(c.subject("pop.max"), inbox, []byte(body)); err != nil {
			c.Fatal(err)
		}
		for {
			m, err := replies.NextMsg(testenv.Patience())
			if err != nil {
				c.Fatal(err)
			}
			if !testenv.IsItem(m) {
				return append(seen, m.Header.Get("Status"))
			}
			seen = append(seen, string(m.Data))
			if m.Reply != "" {
				if err := m.AckSync(nats.AckWait(testenv.Patience())); err != nil {
					c.Error(err)
				}
			}
		}
	}
	for _, step := range []struct{ body, want string }{
		{"2", "4 3 204"},
		{`{"batch":10,"max":1,"lease":60000000000}`, "1 0 204"},
		{`{"batch":1}`, "2 204"},
		{"2", "404"},
	} {
		if got := strings.Join(read(step.body), " "); got != step.want {
			c.Errorf("batch %s: %s, expected %s", step.body, got, step.want)
		}
	}
}

func (c goClient) wait() {
	if m := c.ask("pop.min", `{"expires":20000000}`); m.Header.Get("Status") != "408" {
		c.Errorf("expected 408, found %v", m.Header)
	}
	came := make(chan *nats.Msg, 2)
	inbox := c.nc.NewInbox()
	sub, err := c.nc.ChanSubscribe(inbox, came)
	if err != nil {
		c.Fatal(err)
	}
	defer sub.Unsubscribe()
	for _, band := range []string{"5..", "0.."} { // the first may take less than the second
		m := &nats.Msg{Subject: c.subject("pop.min"), Reply: inbox, Header: nats.Header{"PQ-Wait": {"100s"}, "PQ-Band": {band}}}
		if err := c.nc.PublishMsg(m); err != nil {
			c.Fatal(err)
		}
	}
	for _, priority := range []int{1, 9} {
		pqd.Push(c.T, c.nc, c.queue, priority, fmt.Sprint(priority))
	}
	var got []string
	for range 2 {
		select {
		case m := <-came:
			got = append(got, string(m.Data))
		case <-testenv.Late():
			c.Fatalf("only %q came", got)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"1", "9"}) {
		c.Errorf("the waiting pops got %q", got)
	}
}

func (c goClient) errors() {
	for _, tc := range []struct {
		verb, body string
		header     []string
		code       string
		reason     string
	}{
		{"pop.min", "", nil, "404", "unknown"},
		{"info", "", nil, "404", "unknown"},
		{"pop.min", "all", nil, "400", ""},
		{"pop.min", "", []string{"PQ-Timeout", "5s"}, "400", ""},
		{"pop.middle", "", nil, "400", ""},
		{"peek.min", "", []string{"PQ-Lease", "5s"}, "400", ""},
		{"get.none", "", nil, "400", ""},
		{"admin.config", `{"colour":"red"}`, nil, "400", ""},
	} {
		m := c.ask(tc.verb, tc.body, tc.header...)
		h := m.Header
		if (len(m.Data) > 0) != (tc.code == "400") || h.Get("Nats-Service-Error-Code") != tc.code || h.Get("Status") != tc.code || h.Get("PQ-Reason") != tc.reason || h.Get("Nats-Service-Error") == "" {
			c.Errorf("%s %q %q: %q %v, expected %s %s", tc.verb, tc.body, tc.header, m.Data, h, tc.code, tc.reason)
		}
	}
}

// A lease is as durable as its item: after SIGKILL no other consumer gets the item, and
// its consumer can acknowledge it.
func TestLeaseOutlivesKill(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	nc := p.Connect(t)
	pqd.Push(t, nc, "jobs", 1, "x")
	held := goClient{T: t, nc: nc, queue: "jobs"}.lease()
	nc.Close()
	p.Kill(t)
	p.Start(t)
	nc = p.Connect(t)
	c := goClient{T: t, nc: nc, queue: "jobs"}
	if m := c.ask("pop.min", ""); m.Header.Get("PQ-Reason") != "leased" {
		t.Errorf("after SIGKILL a pop says %v, expected leased", m.Header)
	}
	answer, err := nc.Request(held.Reply, []byte("+ACK"), testenv.Patience())
	if err != nil || len(answer.Header) > 0 {
		t.Errorf("acknowledged after SIGKILL: %v, %v", answer, err)
	}
	if left := c.counts(); left != [3]int{} {
		t.Errorf("ready, leased, delayed are %v, expected none", left)
	}
	nc.Close()
	p.Stop(t)
}
