package bridge_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

func bodies(items []*nats.Msg) (all []string) {
	for _, m := range items {
		all = append(all, string(m.Data))
	}
	return all
}

// Every form of a batch request returns the requested items in order, and then the end
// mark.
func TestBatch(t *testing.T) {
	t.Parallel()
	c := serve(t)
	fill := func() {
		for i := range 5 {
			c.push(fmt.Sprintf("pq.jobs.push.%d", i), strconv.Itoa(i))
		}
	}
	for _, tc := range []struct {
		subject, body string
		header        []string
		want          string
	}{
		{"pop.min", "3", nil, "0 1 2"},
		{"pop.max", "3", nil, "4 3 2"},
		{"pop.min", "1", nil, "0"},
		{"pop.min", "3\n", nil, "0 1 2"},
		{"pop.min", "", []string{"PQ-Batch", "2"}, "0 1"},
		{"pop.min", "2", []string{"PQ-Batch", "2"}, "0 1"},
		{"pop.min", `{"batch":2}`, nil, "0 1"},
		{"pop.min", `{"batch":100}`, nil, "0 1 2 3 4"},
		{"pop.min", `{"batch":1000000000}`, nil, "0 1 2 3 4"},
		{"pop.min", `{"batch":10,"max_bytes":3}`, nil, "0 1 2"},
		{"pop.min", `{"batch":10,"min":1,"max":3}`, nil, "1 2 3"},
		{"pop.max", `{"batch":10,"min":1}`, nil, "4 3 2 1"},
		{"pop.min", "10", []string{"PQ-Band", "..2"}, "0 1 2"},
		{"pop.min", "10", []string{"PQ-Band", "3.."}, "3 4"},
		{"pop.max", "10", []string{"PQ-Band", "2..2"}, "2"},
		{"pop.min", "2", []string{"PQ-Wait", "10s"}, "0 1"},
		{"pop.min", "2", []string{"PQ-Lease", "10s"}, "0 1"},
		{"pop.min", `{"batch":2,"expires":1000000000,"lease":1000000000}`, []string{"PQ-Wait", "1s", "PQ-Lease", "1000ms"}, "0 1"},
		{"peek.min", "3", nil, "0 1 2"},
		{"peek.max", `{"batch":2,"max":3}`, nil, "3 2"},
		{"peek.max", "2", []string{"PQ-Wait", "1s"}, "4 3"},
	} {
		fill()
		items := c.batch(c.send("pq.jobs."+tc.subject, tc.body, tc.header...))
		if got := strings.Join(bodies(items), " "); got != tc.want {
			t.Errorf("%s %s %v: got %s, want %s", tc.subject, tc.body, tc.header, got, tc.want)
		}
		for i, m := range items {
			if got, want := m.Header.Get("PQ-Num-Pending"), strconv.Itoa(5-i-1); got != want {
				t.Errorf("%s %s %v: item %d says %s are left, want %s", tc.subject, tc.body, tc.header, i, got, want)
			}
			if leased := strings.Contains(fmt.Sprint(tc.header), "Lease"); (m.Header.Get("PQ-Ack") != "") != leased {
				t.Errorf("%s %s %v: item %d: %v", tc.subject, tc.body, tc.header, i, m.Header)
			}
		}
		c.ask("pq.jobs.admin.purge", "")
	}
}

// An empty queue answers a batch with 404 alone, and says why it is empty.
func TestNothing(t *testing.T) {
	t.Parallel()
	c := serve(t)
	nothing := func(reason string) {
		t.Helper()
		for _, verb := range []string{"pop.min", "pop.max", "peek.min", "peek.max"} {
			for _, body := range []string{"", "5", `{"batch":1}`} {
				sub := c.send("pq.jobs."+verb, body)
				m := c.refused(c.next(sub), 404, reason)
				if len(m.Data) > 0 || m.Header.Get("Status") != "404" || m.Header.Get("Description") != "No Messages" {
					t.Errorf("%s: %q, %v", verb, m.Data, m.Header)
				}
			}
		}
	}
	nothing("unknown")
	c.ask("pq.jobs.admin.config", "{}")
	nothing("empty")
	c.push("pq.jobs.push", "x")
	for _, verb := range []string{"pop.max", "peek.min"} {
		m := c.refused(c.ask("pq.jobs."+verb, `{"min":5,"max":7}`), 404, "band")
		if want := "queue jobs: none is ready in the band 5..7, 1 outside it"; m.Header.Get("Nats-Service-Error") != want {
			t.Errorf("%s of an empty band: %q, expected %q", verb, m.Header.Get("Nats-Service-Error"), want)
		}
	}
}

// A pop or a peek without a reply subject pops nothing.
func TestPopWithoutReply(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push", "x")
	for _, verb := range []string{"pop.min", "pop.max", "peek.min", "info", "list"} {
		if err := c.Publish("pq.jobs."+verb, nil); err != nil {
			t.Fatal(err)
		}
	}
	if i := c.info("jobs"); i.Ready != 1 {
		t.Errorf("%+v", i)
	}
	if n := c.stats()["pop"].NumErrors; n != 2 {
		t.Errorf("%d errors of pops, want 2", n)
	}
}

// Items that were pushed without a bridge and do not fit into an answer stay in the
// queue.
func TestOversizedItem(t *testing.T) {
	t.Parallel()
	c := serve(t)
	large := make([]byte, 2<<20)
	c.pushPast(
		fdbpq.NewItem{Payload: []byte("1")}, fdbpq.NewItem{Payload: []byte("2")},
		fdbpq.NewItem{Payload: large}, fdbpq.NewItem{Payload: []byte("4")})
	if items := c.batch(c.send("pq.jobs.peek.min", "10")); len(items) != 2 {
		t.Errorf("peeked at %q", bodies(items))
	}
	if items := c.batch(c.send("pq.jobs.pop.min", "10")); len(items) != 2 {
		t.Errorf("popped %q", bodies(items))
	}
	for _, verb := range []string{"pop.min", "peek.min"} {
		m := c.refused(c.ask("pq.jobs."+verb, ""), 413)
		if !strings.Contains(m.Header.Get("Nats-Service-Error"), "2097152 bytes") {
			t.Errorf("%v", m.Header)
		}
	}
	c.refused(c.ask("pq.jobs.pop.min", "10", "PQ-Wait", "1s"), 413)
	if m := c.pop("pq.jobs.pop.max", ""); string(m.Data) != "4" {
		t.Errorf("popped %q", m.Data)
	}
	if i := c.info("jobs"); i.Ready != 1 {
		t.Errorf("%+v", i)
	}
}

// An item that no message can carry is refused with an error, and stays; those before it arrive.
func TestItemNoMessageCanCarry(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.pushPast(fdbpq.NewItem{Payload: []byte("1")}, fdbpq.NewItem{Payload: []byte("2"), Headers: []byte(": x\r\n")}, fdbpq.NewItem{Payload: []byte("3")})
	if items := c.batch(c.send("pq.jobs.pop.min", "10", "PQ-Lease", "1h")); fmt.Sprint(bodies(items)) != "[1]" {
		t.Errorf("popped %q", bodies(items))
	}
	c.refused(c.ask("pq.jobs.pop.min", "", "PQ-Bundle", "10"), 500)
	page := object[protocol.Page](c, "pq.jobs.list", "")
	bad := page.Items[0]
	for _, request := range []string{"peek.min", "pop.min", "get." + bad.ID} {
		c.refused(c.ask("pq.jobs."+request, ""), 500)
	}
	c.ask("pq.jobs.remove."+bad.ID, "")
	if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != "3" {
		t.Errorf("the last is %q", m.Data)
	}
}

// pushPast pushes items to the queue jobs directly in the store.
func (c *client) pushPast(items ...fdbpq.NewItem) {
	c.Helper()
	c.pushPastTo("jobs", items...)
}

// pushPastTo does the same with another queue.
func (c *client) pushPastTo(queue string, items ...fdbpq.NewItem) {
	c.Helper()
	session := c.env.Store.Session()
	defer session.Release()
	err := session.Update(c.Context(), func(tx kv.Tx) error {
		_, err := c.env.Store.Queue(queue).Push(tx, items...)
		return err
	})
	if err != nil {
		c.Fatal(err)
	}
}

// Concurrent pops of all kinds deliver each item once.
func TestConcurrentPops(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const n = 1000
	for i := range n - 1 {
		if err := c.Publish(fmt.Sprintf("pq.jobs.push.%d", i%7), []byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	c.push("pq.jobs.push", "last") // behind all others
	var mu sync.Mutex
	seen := make(map[string]bool)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			c := c.another()
			for {
				var items []*nats.Msg
				switch i % 4 {
				case 0:
					items = append(items, c.ask("pq.jobs.pop.min", ""))
				case 1:
					items = append(items, c.ask("pq.jobs.pop.max", ""))
				case 2:
					items = append(items, c.ask("pq.jobs.pop.min", "", "PQ-Lease", "5m"))
				case 3:
					sub := c.send("pq.jobs.pop.max", "5")
					first := c.next(sub)
					if items = append(items, first); first.Header.Get("PQ-Id") != "" {
						items = append(items, c.batch(sub)...)
					}
				}
				for _, m := range items {
					if m.Header.Get("PQ-Id") == "" {
						c.refused(m, 404)
						return
					}
					mu.Lock()
					if seen[string(m.Data)] {
						t.Errorf("item %s was popped twice", m.Data)
					}
					seen[string(m.Data)] = true
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if len(seen) != n {
		t.Errorf("%d items of %d were popped", len(seen), n)
	}
}

// Equal pops sent in a row get the items in order.
func TestPipelinedPops(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const n = 1500
	for i := range n {
		if err := c.Publish("pq.jobs.push", []byte(strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	c.push("pq.jobs.push", "last")
	sub := c.listen()
	for range n + 3 {
		if err := c.PublishRequest("pq.jobs.pop.min", sub.inbox, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		m := c.next(sub)
		if string(m.Data) != strconv.Itoa(i) || m.Header.Get("PQ-Num-Pending") != strconv.Itoa(n-i) {
			t.Fatalf("pop %d: %q, %v", i, m.Data, m.Header)
		}
	}
	if m := c.next(sub); string(m.Data) != "last" {
		t.Errorf("%q", m.Data)
	}
	for range 2 {
		c.refused(c.next(sub), 404, "empty")
	}
}

// A pop repeated with its id gives the same items again.
func TestRepeatedPop(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for i := range 6 {
		c.push("pq.jobs.push", strconv.Itoa(i), "X-N", strconv.Itoa(i))
	}
	// For good.
	first := c.batch(c.send("pq.jobs.pop.min", "2", "Nats-Msg-Id", "a"))
	again := c.batch(c.send("pq.jobs.pop.min", `{"batch":2,"msg_id":"a"}`))
	if got := bodies(again); !slices.Equal(got, bodies(first)) || again[1].Header.Get("X-N") != "1" {
		t.Errorf("popped %q, then %q", bodies(first), got)
	}
	// With a lease both ack subjects are valid, and settled items are left out.
	first = c.batch(c.send("pq.jobs.pop.min", "2", "Nats-Msg-Id", "b", "PQ-Lease", "1m"))
	again = c.batch(c.send("pq.jobs.pop.min", "2", "Nats-Msg-Id", "b", "PQ-Lease", "1m"))
	if !slices.Equal(bodies(again), bodies(first)) || again[0].Header.Get("PQ-Fence") != first[0].Header.Get("PQ-Fence") {
		t.Errorf("popped %q, then %q", bodies(first), bodies(again))
	}
	c.accepted(c.raw(first[0].Reply, "+ACK"))
	again = c.batch(c.send("pq.jobs.pop.min", "2", "Nats-Msg-Id", "b", "PQ-Lease", "1m"))
	if !slices.Equal(bodies(again), []string{"3"}) {
		t.Errorf("popped %q", bodies(again))
	}
}

// A reply subject under the prefix is refused: the answer would be a request with the
// bridge's permissions.
func TestReplySubjectUnderThePrefix(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{})
	second := c.second(bridge.Options{})
	defer c.drain(second)
	c.push("pq.jobs.push", "x")
	c.push("pq.safe.push", "y")
	for _, reply := range []string{"pq.safe.admin.purge", "pq.stolen.push", "pq.safe.pop.min"} {
		for _, subject := range []string{"pq.jobs.pop.min", "pq.jobs.peek.min", "pq.jobs.info", "pq.jobs.nothing"} {
			if err := c.PublishRequest(subject, reply, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if a, b := c.info("jobs").Ready, c.info("safe").Ready; a != 1 || b != 1 {
		t.Errorf("%d and %d items are left", a, b)
	}
	c.refused(c.ask("pq.stolen.info", ""), 404)
}

// second starts another bridge on the same store.
func (c *client) second(o bridge.Options) *bridge.Bridge {
	c.Helper()
	b, err := bridge.Start(c.Context(), c.env.NATS.Connect(c, bridge.ConnectOptions(nil)...), c.env.Store, o)
	if err != nil {
		c.Fatal(err)
	}
	return b
}

// Two bridges on one store deliver each item once, serve the waiting pops of both, and
// pass over no acknowledged item.
func TestTwoBridges(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{})
	second := c.second(bridge.Options{})
	defer c.drain(second)
	const n = 400
	var mu sync.Mutex
	seen := make(map[string]bool)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			c := c.another()
			for j := range n / 4 {
				c.push(fmt.Sprintf("pq.jobs.push.%d", j%5), fmt.Sprint(i, "-", j))
			}
		})
		wg.Go(func() {
			c := c.another()
			for range n / 4 {
				m := c.pop("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Lease", "5m")
				mu.Lock()
				if seen[string(m.Data)] {
					t.Errorf("item %s was popped twice", m.Data)
				}
				seen[string(m.Data)] = true
				mu.Unlock()
				if err := m.AckSync(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if len(seen) != n {
		t.Errorf("%d items of %d were popped", len(seen), n)
	}
	for i := range 50 {
		c.push("pq.order.push.5", "5")
		c.push("pq.order.push.1", "1")
		if m := c.pop("pq.order.pop.min", ""); string(m.Data) != "1" {
			t.Fatalf("round %d: popped %s", i, m.Data)
		}
	}
}
