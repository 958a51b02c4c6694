package bridge_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/testenv"
)

// stalling is the way to a store of a process that stands still: the first transaction on
// the queue jobs begins only after resume is closed.
type stalling struct {
	kv.DB
	once    sync.Once
	reached chan struct{} // closed when the transaction is held up
	resume  chan struct{}
	over    chan struct{} // closed when it has ended
}

func newStalling(db kv.DB) *stalling {
	return &stalling{DB: db, reached: make(chan struct{}), resume: make(chan struct{}), over: make(chan struct{})}
}

var errStalled = errors.New("this run does not count")

func (s *stalling) Update(ctx context.Context, fn func(kv.Tx) error) error {
	err := s.DB.Update(ctx, func(base kv.Tx) error {
		tx := &watched{Tx: base}
		err := fn(tx)
		if tx.touched {
			s.once.Do(func() { err = errStalled })
		}
		return err
	})
	if err == errStalled {
		close(s.reached)
		<-s.resume
		defer close(s.over)
		// The time that a transaction may take is not what ends this one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), testenv.Patience())
		defer cancel()
		return s.DB.Update(ctx, fn)
	}
	return err
}

// watched notices that a transaction is about the queue jobs.
type watched struct {
	kv.Tx
	touched bool
}

func (w *watched) Get(key []byte) ([]byte, error) {
	w.touched = w.touched || bytes.HasPrefix(key, []byte("\x02q\x00\x02jobs\x00"))
	return w.Tx.Get(key)
}

// engine opens a store on the first engine for several processes.
func engine(t *testing.T) kv.DB {
	t.Helper()
	db, err := testenv.Engines()[0].Place(t)()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// join starts a bridge on its own way to a store, which is checked when all bridges have
// ended.
func join(t *testing.T, server *testenv.Server, db kv.DB) (*bridge.Bridge, *nats.Conn) {
	t.Helper()
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	nc := server.Connect(t, bridge.ConnectOptions(nil)...)
	b, err := bridge.Start(t.Context(), nc, store, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience())
		defer cancel()
		if err := b.Drain(ctx); err != nil && !nc.IsClosed() {
			t.Errorf("drain: %v", err)
		}
	})
	return b, nc
}

// stalled has a bridge receive a pop and stand still with it. Another one serves all that
// comes then. The functions prepare the queue and repeat the pop.
func stalled(t *testing.T, before func(*client), subject, body string, header ...string) (*client, *stalling) {
	t.Helper()
	server, base := testenv.NATS(t), engine(t)
	store := testenv.OpenStore(t, base, fdbpq.Options{})
	c := &client{TB: t, Conn: server.Connect(t), env: &testenv.Bridged{NATS: server, Store: store}}
	if before != nil {
		first, _ := join(t, server, base)
		before(c)
		c.drain(first)
	}
	slow := newStalling(base)
	_, nc := join(t, server, slow)
	c.send(subject, body, header...)
	select {
	case <-slow.reached:
	case <-testenv.Late():
		t.Fatal("the pop does not arrive")
	}
	id, err := nc.GetClientID()
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	testenv.Await(t, "the server gives the closed connection no more requests", func() bool { return server.Server().GetClient(id) == nil })
	join(t, server, base)
	return c, slow
}

// wakes lets the bridge that stands still go on, until its transaction has ended.
func (s *stalling) wakes(t *testing.T) {
	t.Helper()
	close(s.resume)
	select {
	case <-s.over:
	case <-testenv.Late():
		t.Fatal("the transaction does not end")
	}
}

// A bridge stands still with the first attempt at a pop, another one answers the second,
// and then an item arrives. The item is not for the first attempt if the second was a
// repetition.
func TestBridgeWithFirstAttemptWakesUp(t *testing.T) {
	t.Parallel()
	large := func(c *client) {
		c.pushPast(fdbpq.NewItem{Payload: make([]byte, 2<<20), Priority: -1, HasPriority: true})
	}
	used := func(c *client) {
		c.ask("pq.jobs.admin.config", `{"dedup_window":"5m"}`)
	}
	for _, tc := range []struct {
		name   string
		before func(*client)
		header []string // of both attempts
		second []string // of the second
		code   int
		then   func(*client)
	}{
		{"no queue", nil, nil, nil, 404, nil},
		{"batch", used, []string{"PQ-Batch", "10"}, nil, 404, nil},
		{"wait", used, nil, []string{"PQ-Wait", "20ms"}, 408, nil},
		{"item that no answer can carry", large, nil, nil, 413, func(c *client) { c.ask("pq.jobs.admin.purge", "") }},
		{"queue with a new default lease", used, nil, nil, 404, func(c *client) { c.ask("pq.jobs.admin.config", `{"lease":"1h"}`) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, marked := range []bool{true, false} {
				id := []string{"Nats-Msg-Id", "x"}
				c, slow := stalled(t, tc.before, "pq.jobs.pop.min", "", slices.Concat(id, tc.header)...)
				second := slices.Concat(id, tc.header, tc.second)
				if marked {
					second = append(second, "PQ-Repeat", "true")
				}
				c.refused(c.raw("pq.jobs.pop.min", "", second...), tc.code)
				if tc.then != nil {
					tc.then(c)
				}
				c.push("pq.jobs.push.5", "late")
				slow.wakes(t)
				i := c.info("jobs")
				if !marked {
					// The mark is for this case. Leased items return.
					if i.Ready != 0 && !strings.Contains(tc.name, "lease") {
						t.Error("the first attempt does not take the item, so the test proves nothing")
					}
					continue
				}
				if i.Ready != 1 {
					t.Errorf("the item was taken for a pop that nobody repeats any more: %+v", i)
				}
				c.refused(c.raw("pq.jobs.pop.min", "", slices.Concat(id, tc.header)...), 404)
				if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != "late" {
					t.Errorf("popped %q", m.Data)
				}
			}
		})
	}
}

// An attempt that waits ends when a repetition has found nothing, and takes no item.
func TestRepetitionEndsWaits(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{})
	second := c.second(bridge.Options{})
	defer c.drain(second)
	c.ask("pq.jobs.admin.config", `{}`)
	for _, body := range []string{"", "5"} {
		id := "x" + body
		waits := c.send("pq.jobs.pop.min", body, "Nats-Msg-Id", id, "PQ-Wait", "100s")
		c.waiting("jobs", 1)
		c.refused(c.raw("pq.jobs.pop.min", body, "Nats-Msg-Id", id, "PQ-Repeat", "true"), 404, "empty")
		c.push("pq.jobs.push", "one")
		c.refused(c.next(waits), 404)
		if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != "one" {
			t.Errorf("popped %q", m.Data)
		}
	}
}

// A repetition may wait like any pop. It takes what arrives, and is not final before its
// time is up.
func TestRepetitionWaits(t *testing.T) {
	t.Parallel()
	c := serve(t)
	repeat := []string{"Nats-Msg-Id", "x", "PQ-Repeat", "true", "PQ-Wait", "100s"}
	waits := c.send("pq.jobs.pop.min", "", repeat...)
	c.waiting("jobs", 1)
	another := c.send("pq.jobs.pop.min", "", repeat...)
	c.waiting("jobs", 2)
	c.push("pq.jobs.push", "one")
	for _, from := range []answers{waits, another} {
		if m := c.next(from); string(m.Data) != "one" {
			t.Errorf("answered %q, %v", m.Data, m.Header)
		}
	}
	if i := c.info("jobs"); i.Ready != 0 {
		t.Errorf("%+v", i)
	}
	m := c.raw("pq.jobs.pop.min", "", "Nats-Msg-Id", "y", "PQ-Repeat", "true", "PQ-Wait", "1ms")
	c.refused(m, 408)
	c.push("pq.jobs.push", "two")
	c.refused(c.raw("pq.jobs.pop.min", "", "Nats-Msg-Id", "y", "PQ-Wait", "100s"), 404)
	c.pop("pq.jobs.pop.min", "")
}

// The mark stands in a header or in the body, and needs an id.
func TestRepeatForms(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{}`)
	for i, tc := range []struct {
		body   string
		header []string
		final  bool
	}{
		{`{"msg_id":"0","repeat":true}`, nil, true},
		{`{"msg_id":"1","repeat":false}`, nil, false},
		{`{"msg_id":"2","repeat":true}`, []string{"PQ-Repeat", "true"}, true},
		{`{"repeat":true}`, []string{"Nats-Msg-Id", "3"}, true},
		{"", []string{"Nats-Msg-Id", "4", "PQ-Repeat", "true"}, true},
		{"", []string{"Nats-Msg-Id", "5", "PQ-Repeat", "false"}, false},
	} {
		c.refused(c.raw("pq.jobs.pop.min", tc.body, tc.header...), 404)
		c.push("pq.jobs.push", "x")
		m := c.raw("pq.jobs.pop.min", "", "Nats-Msg-Id", fmt.Sprint(i))
		if final := m.Header.Get("Status") == "404"; final != tc.final {
			t.Errorf("%s %v: %v, want final %t", tc.body, tc.header, m.Header, tc.final)
		}
		c.ask("pq.jobs.admin.purge", "")
	}
	for _, tc := range []struct {
		subject, body string
		header        []string
		want          string
	}{
		{"pop.min", "", []string{"PQ-Repeat", "true"}, "Nats-Msg-Id"},
		{"pop.min", `{"repeat":true}`, nil, "Nats-Msg-Id"},
		{"pop.min", `{"msg_id":"a","repeat":1}`, nil, "true or false"},
		{"pop.min", `{"msg_id":"a","repeat":true}`, []string{"PQ-Repeat", "false"}, "the same"},
		{"pop.min", "", []string{"PQ-Repeat", "1", "Nats-Msg-Id", "a"}, "true or false"},
		{"peek.min", "", []string{"PQ-Repeat", "true"}, "Nats-Msg-Id"},
		{"push", "", []string{"PQ-Repeat", "true", "Nats-Msg-Id", "a"}, "none of a push"},
	} {
		m := c.refused(c.raw("pq.jobs."+tc.subject, tc.body, tc.header...), 400)
		if text := m.Header.Get("Nats-Service-Error"); !strings.Contains(text, tc.want) {
			t.Errorf("%s %s %v: %q, want %q in it", tc.subject, tc.body, tc.header, text, tc.want)
		}
	}
}

// A repeated +NXT gives the item that the first one popped. When the first one has popped
// nothing, it never will.
func TestRepeatedNext(t *testing.T) {
	t.Parallel()
	c := serve(t)
	m := c.lease("one")
	c.push("pq.jobs.push", "two")
	first := c.raw(m.Reply, "+NXT", "Nats-Msg-Id", "x")
	if string(first.Data) != "two" {
		t.Fatalf("next is %q, %v", first.Data, first.Header)
	}
	c.lost(c.raw(m.Reply, "+NXT", "Nats-Msg-Id", "x"), "gone")
	again := c.raw(m.Reply, "+NXT", "Nats-Msg-Id", "x", "PQ-Repeat", "true")
	if string(again.Data) != "two" || again.Header.Get("PQ-Fence") != first.Header.Get("PQ-Fence") {
		t.Errorf("the repetition got %q, %v", again.Data, again.Header)
	}
	waits := c.send(again.Reply, `+NXT {"expires":100000000000}`, "Nats-Msg-Id", "y")
	c.waiting("jobs", 1)
	c.lost(c.raw(again.Reply, "+NXT", "Nats-Msg-Id", "y", "PQ-Repeat", "true"), "gone")
	c.push("pq.jobs.push", "three")
	c.refused(c.next(waits), 404)
	if i := c.info("jobs"); i.Ready != 1 || i.Leased != 0 {
		t.Errorf("%+v", i)
	}
}

// A repetition that the store cannot remember, or that may not wait, is not final.
func TestRepetitionThatIsNotFinal(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Limits: bridge.Limits{Waiters: 1}})
	c.ask("pq.jobs.admin.config", `{"dedup_limit":1}`)
	repeat := []string{"Nats-Msg-Id", "x", "PQ-Repeat", "true"}
	waits := c.send("pq.jobs.pop.min", "", "PQ-Wait", "100s", "PQ-Band", "7..")
	c.waiting("jobs", 1)
	c.refused(c.raw("pq.jobs.pop.min", "", append(repeat, "PQ-Wait", "100s")...), 409)
	c.refused(c.raw("pq.jobs.pop.min", "", "Nats-Msg-Id", "y", "PQ-Repeat", "true"), 404)
	c.refused(c.raw("pq.jobs.pop.min", "", repeat...), 429, "remembered")
	c.ask("pq.jobs.admin.config", `{"dedup_limit":10}`)
	c.push("pq.jobs.push", "one")
	if m := c.pop("pq.jobs.pop.min", "", repeat...); string(m.Data) != "one" {
		t.Errorf("popped %q", m.Data)
	}
	c.push("pq.jobs.push.8", "two")
	c.next(waits)
}

// A request that asks for no batch has one answer, whatever the pop with its id was. The leases of the
// the other items are the items of the first answer.
func TestRepetitionWithoutBatch(t *testing.T) {
	t.Parallel()
	for _, lease := range [][]string{nil, {"PQ-Lease", "1h"}} {
		c := serve(t)
		for _, body := range []string{"one", "two", "three"} {
			c.push("pq.jobs.push", body)
		}
		header := append([]string{"Nats-Msg-Id", "x"}, lease...)
		first := c.batch(c.send("pq.jobs.pop.min", "2", header...))
		again := c.send("pq.jobs.pop.min", "", header...)
		if m := c.next(again); string(m.Data) != "one" || m.Header.Get("PQ-Num-Pending") != "1" {
			t.Errorf("the repetition answers %q, %v", m.Data, m.Header)
		}
		if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != "three" || len(again.came) > 0 {
			t.Errorf("the next one is %q, and the repetition has %d more answers", m.Data, len(again.came))
		}
		for _, m := range first {
			if lease != nil && c.ask(m.Reply, "+ACK").Header.Get("Status") != "" {
				t.Errorf("%q is not leased any more", m.Data)
			}
		}
	}
}
