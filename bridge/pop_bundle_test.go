package bridge_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// frames reads the items of a bundle as any program may.
func (c *client) frames(m *nats.Msg) (items []*nats.Msg) {
	c.Helper()
	for rest := m.Data; len(rest) > 0; {
		first, after, _ := bytes.Cut(rest, []byte("\n"))
		var headers, payload int
		if _, err := fmt.Sscanf(string(first), "%d %d", &headers, &payload); err != nil || len(after) < headers+payload+1 {
			c.Fatalf("frame %q, %v, of %q", first, err, m.Data)
		}
		item := &nats.Msg{Header: h(), Data: after[headers : headers+payload]}
		for _, line := range strings.SplitAfter(string(after[:headers]), "\r\n") {
			if name, value, is := strings.Cut(strings.TrimSuffix(line, "\r\n"), ": "); is {
				item.Header[name] = append(item.Header[name], value)
			}
		}
		if after[headers+payload] != '\n' || item.Header.Get("PQ-Id") == "" {
			c.Fatalf("an item %q, %v, in %q", item.Data, item.Header, m.Data)
		}
		items, rest = append(items, item), after[headers+payload+1:]
	}
	if n := fmt.Sprint(len(items)); m.Header.Get("PQ-Bundle") != n || len(m.Header) != 1 {
		c.Fatalf("a bundle of %s has the headers %v", n, m.Header)
	}
	return items
}

// popBundle pops items in one message.
func (c *client) popBundle(subject, body string, header ...string) []*nats.Msg {
	c.Helper()
	return c.frames(c.ask(subject, body, header...))
}

func texts(items []*nats.Msg) (texts []string) {
	for _, m := range items {
		texts = append(texts, string(m.Data))
	}
	return texts
}

// A bundle has the items of a batch, with the headers that they have in messages of their own.
func TestPopBundle(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for i, text := range []string{"a", "b\n", "", "d", "e"} {
		c.push("pq.jobs.push."+fmt.Sprint(i), text, "X", fmt.Sprint(i), "X", "y")
	}
	single := c.ask("pq.jobs.peek.min", "")
	peeked := c.popBundle("pq.jobs.peek.min", `{"bundle":2}`)
	if !slices.Equal(texts(peeked), []string{"a", "b\n"}) {
		t.Fatalf("peeked %q", texts(peeked))
	}
	if got, want := fmt.Sprint(peeked[0].Header), fmt.Sprint(single.Header); got != want {
		t.Errorf("in a bundle %s, in a message %s", got, want)
	}
	popped := c.popBundle("pq.jobs.pop.min", "", "PQ-Bundle", "3", "PQ-Lease", "1m")
	if !slices.Equal(texts(popped), []string{"a", "b\n", ""}) {
		t.Fatalf("popped %q", texts(popped))
	}
	for i, m := range popped {
		if m.Header.Get("PQ-Num-Pending") != fmt.Sprint(4-i) || !slices.Equal(m.Header["X"], []string{fmt.Sprint(i), "y"}) {
			t.Errorf("item %d: %v", i, m.Header)
		}
		c.accepted(c.raw(m.Header.Get("PQ-Ack"), "+ACK"))
	}
	if rest := c.popBundle("pq.jobs.pop.max", "", "PQ-Bundle", "1000000", "PQ-Band", "4.."); !slices.Equal(texts(rest), []string{"e"}) {
		t.Errorf("the rest of a band: %q", texts(rest))
	}
	if rest := c.popBundle("pq.jobs.pop.max", `{"bundle":1}`); !slices.Equal(texts(rest), []string{"d"}) {
		t.Errorf("the rest: %q", texts(rest))
	}
	c.refused(c.ask("pq.jobs.pop.min", "", "PQ-Bundle", "10"), 404, "empty")
	waits := c.send("pq.jobs.pop.min", "", "PQ-Bundle", "10", "PQ-Wait", forever)
	c.waiting("jobs", 1)
	c.pushBundle("pq.jobs.push", []string{frame("f"), frame("g")})
	if came := c.frames(c.next(waits)); !slices.Equal(texts(came), []string{"f", "g"}) {
		t.Errorf("a bundle that waited: %q", texts(came))
	}
	c.refused(c.ask("pq.jobs.pop.min", "5", "PQ-Bundle", "10"), 400)
	c.refused(c.ask("pq.jobs.pop.min", `{"bundle":2}`, "PQ-Bundle", "3"), 400)
	c.refused(c.ask("pq.jobs.pop.min", "", "PQ-Bundle", "0"), 400)
	if rate := c.info("jobs").Rates["pop"]; rate < 6.0/60 {
		t.Errorf("the rate of pops is %v a second, although 7 were popped", rate)
	}
}

// A bundle ends where its answer would be larger than the server's max_payload, and every
// item is delivered, the largest one included.
func TestPopBundleFitsIntoItsAnswer(t *testing.T) {
	t.Parallel()
	const most = 16 << 10
	c := serveWithin(t, most, bridge.Options{Exclusive: true})
	c.ask("pq.jobs-dead.admin.config", `{}`)
	var sizes []int
	asks := []string{"PQ-Result-TTL", "168h"}
	for i := range 60 {
		size := 1 + (i*397)%3000
		if i%20 == 10 {
			size = most - 1100
		}
		sizes = append(sizes, size)
		c.push(fmt.Sprint("pq.jobs.push.", i), strings.Repeat("x", size), asks[:i%2*2]...)
	}
	all := func(subject string, header ...string) (got []int) {
		t.Helper()
		for len(got) < len(sizes) {
			m := c.ask(subject, "", append(header, "PQ-Bundle", "1000")...)
			items := c.frames(m)
			for _, item := range items {
				got = append(got, len(item.Data))
				if ack := item.Header.Get("PQ-Ack"); ack != "" {
					if asked := item.Header.Get("PQ-Result-TTL") != ""; asked != ((len(got)-1)%2 == 1) {
						t.Errorf("item %d: %v", len(got)-1, item.Header)
					}
					c.accepted(c.raw(ack, "+TERM "+strings.Repeat("r", 200)))
				}
			}
			if bytes := m.Size() - len(m.Subject) - len(m.Reply); bytes > most {
				t.Errorf("a bundle of %d bytes", bytes)
			} else if rest := sizes[len(got):]; len(rest) > 0 && bytes+rest[0]+1000+500*len(items) < most {
				t.Errorf("a bundle of %d items and %d bytes has no room for %d", len(items), bytes, rest[0])
			}
			if peeked := c.frames(c.ask(strings.Replace(subject, "pop", "peek", 1), "", "PQ-Bundle", "1000")); len(got) < len(sizes) && len(peeked) == 0 {
				t.Error("nothing was peeked")
			}
			if len(got) == len(sizes)-1 {
				return append(got, len(c.pop(subject, "").Data)) // the peek needs one
			}
		}
		return got
	}
	if got := all("pq.jobs.pop.min", "PQ-Lease", "1h"); !slices.Equal(got, sizes) {
		t.Errorf("popped %v, pushed %v", got, sizes)
	}
	sizes = sizes[:len(sizes)-1]
	if got := all("pq.jobs-dead.pop.min"); !slices.Equal(got, sizes) {
		t.Errorf("popped %v, which died as %v", got, sizes)
	}
}

// A bundle with an id is popped once. If a repetition cannot be one message any more, its
// items are still there for a batch.
func TestRepeatedPopBundle(t *testing.T) {
	t.Parallel()
	c := serve(t)
	payload := strings.Repeat("x", 1000)
	for _, lease := range []string{"", "1h"} {
		t.Run("lease "+lease, func(t *testing.T) {
			c := c.in(t)
			id := "plain"
			header := []string{"PQ-Bundle", "50"}
			if lease != "" {
				id, header = "leased", append(header, "PQ-Lease", lease)
			}
			queue := "pq." + id
			c.pushBundle(queue+".push", slices.Repeat([]string{frame(payload)}, 60))
			header = append(header, "Nats-Msg-Id", "1")
			first := c.popBundle(queue+".pop.min", "", header...)
			again := c.popBundle(queue+".pop.min", "", append(header, "PQ-Repeat", "true")...)
			if len(first) != 50 || len(again) != 50 {
				t.Fatalf("%d items, then %d", len(first), len(again))
			}
			for i := range first {
				if first[i].Header.Get("PQ-Id") != again[i].Header.Get("PQ-Id") || first[i].Header.Get("PQ-Fence") != again[i].Header.Get("PQ-Fence") {
					t.Errorf("item %d: %v, then %v", i, first[i].Header, again[i].Header)
				}
			}
		})
	}
	up := c.StatusChanged(nats.CONNECTED)
	c.env.NATS.Restart(t, func(o *server.Options) { o.MaxPayload = 16 << 10 })
	await(t, up, "the client connects again")
	c.persistent("pq.plain.info", "")
	for _, repeat := range []string{"false", "true"} {
		c.refused(c.ask("pq.plain.pop.min", "", "PQ-Bundle", "50", "Nats-Msg-Id", "1", "PQ-Repeat", repeat), 413)
		c.refused(c.ask("pq.leased.pop.min", "", "PQ-Bundle", "50", "PQ-Lease", "1h", "Nats-Msg-Id", "1", "PQ-Repeat", repeat), 413)
	}
	for _, queue := range []string{"plain", "leased"} {
		if items := c.batch(c.send("pq."+queue+".pop.min", "", "PQ-Batch", "50", "Nats-Msg-Id", "1")); len(items) != 50 {
			t.Errorf("%d items of the first pop of %s", len(items), queue)
		}
	}
	if rest := c.popBundle("pq.plain.pop.min", "", "PQ-Bundle", "50"); len(rest) != 10 {
		t.Errorf("%d items are left", len(rest))
	}
}

// The items of a bundle that no client received return at once, without counting as
// deliveries.
func TestUnreceivedBundleReturns(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.pushBundle("pq.jobs.push", slices.Repeat([]string{frame("x")}, 3))
	if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: c.NewInbox(), Header: h("PQ-Lease", "1h", "PQ-Bundle", "3")}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		m := c.pop("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Lease", "1h")
		if m.Header.Get("PQ-Deliveries") != "1" || m.Header.Get("PQ-Fence") != "2" {
			t.Errorf("%v", m.Header)
		}
	}
}

// A right to settle one queue is none to give back the bundles of another one.
func TestBundleIsReturnedToItsQueueAlone(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.pushBundle("pq.jobs.push", slices.Repeat([]string{frame("x")}, 3))
	m := c.ask("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Bundle", "3")
	if !strings.HasPrefix(m.Reply, "pq.jobs.ack.") {
		t.Fatalf("leased with the reply subject %s", m.Reply)
	}
	forged := &nats.Msg{Subject: strings.Replace(m.Reply, "pq.jobs.", "pq.mail.", 1), Header: h("Status", "503")}
	for range 2 {
		if err := c.PublishMsg(forged); err != nil {
			t.Fatal(err)
		}
	}
	// The return of a later item shows that the bridge has handled the forged messages.
	c.push("pq.other.push", "for nobody")
	if err := c.PublishMsg(&nats.Msg{Subject: "pq.other.pop.min", Reply: c.NewInbox(), Header: h("PQ-Lease", "1h")}); err != nil {
		t.Fatal(err)
	}
	c.pop("pq.other.pop.min", "", "PQ-Wait", forever, "PQ-Lease", "1h")
	if of := c.info("jobs"); of.Leased != 3 {
		t.Errorf("%d items are leased and %d ready after a message on a subject of another queue", of.Leased, of.Ready)
	}
	forged.Subject = m.Reply // that of the server
	if err := c.PublishMsg(forged); err != nil {
		t.Fatal(err)
	}
	c.pop("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Lease", "1h")
}

// Clients that pop bundles at the same time get each item once, in whole bundles.
func TestPopBundlesTogether(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const clients, items, size = 6, 600, 25
	for n := 0; n < items; n += 100 {
		var frames []string
		for i := range 100 {
			frames = append(frames, frame(fmt.Sprint(n+i)))
		}
		c.pushBundle("pq.jobs.push", frames)
	}
	var mu sync.Mutex
	seen := make(map[string]bool)
	var wg sync.WaitGroup
	for range clients {
		other := c.another()
		wg.Go(func() {
			for range items / clients / size {
				m, err := other.RequestMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Header: h("PQ-Bundle", fmt.Sprint(size))}, testenv.Patience())
				if err != nil || m.Header.Get("PQ-Bundle") != fmt.Sprint(size) {
					t.Errorf("%v, %v", m, err)
					return
				}
				mu.Lock()
				for _, text := range texts(other.frames(m)) {
					if seen[text] {
						t.Errorf("%s twice", text)
					}
					seen[text] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != items {
		t.Errorf("%d of %d items", len(seen), items)
	}
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "empty")
}
