package bridge_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// key pushes an item with a key and returns its id.
func (c *client) key(key, body string) string {
	c.Helper()
	return c.push("pq.jobs.push", body, "PQ-Key", key).ID
}

// leased leases an item and expects this one.
func (c *client) leased(want string) *nats.Msg {
	c.Helper()
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	if string(m.Data) != want {
		c.Errorf("a pop got %q, expected %q", m.Data, want)
	}
	return m
}

func (c *client) blocked() {
	c.Helper()
	c.refused(c.ask("pq.jobs.pop.min", "", "PQ-Lease", "1m"), 404, "blocked")
}

// What a queue that limits keys cannot do answers 409 at once, whoever waits.
func TestKeyLimitRefuses(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"key_limit":1}`)
	refused := func(subject, reason, description string, header ...string) {
		t.Helper()
		if m := c.refused(c.ask(subject, "", header...), 409, reason); m.Header.Get("Description") != description {
			t.Errorf("%s: %v", subject, m.Header)
		}
	}
	refused("pq.jobs.pop.min", "lease_required", "Lease Required", "PQ-Wait", forever)
	refused("pq.jobs.pop.max", "only_min", "Only Min", "PQ-Lease", "1m", "PQ-Wait", forever)
	refused("pq.jobs.peek.min", "only_min", "Only Min", "PQ-Band", "1..5", "PQ-Wait", forever)
}

// A pop that waits is told when the queue begins to limit keys and it has no lease.
func TestWaitingPopOfQueueThatLimitsKeys(t *testing.T) {
	t.Parallel()
	c := serve(t)
	waits := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever)
	c.waiting("jobs", 1)
	c.ask("pq.jobs.admin.config", `{"key_limit":1}`)
	c.key("a", "a1")
	c.refused(c.next(waits), 409, "lease_required")
	c.leased("a1")
}

// Lists, imports and dead letters keep the key, and a push of what was popped does.
func TestKeyTravels(t *testing.T) {
	t.Parallel()
	c := serve(t)
	key := strings.Repeat("é", fdbpq.MaxKey/2)
	id := c.key(key, "x")
	page := strictly[protocol.Page](t, c.ask("pq.jobs.list", "").Data)
	if len(page.Items) != 1 || page.Items[0].Key != key {
		t.Errorf("%+v", page)
	}
	got := c.ask("pq.jobs.get."+id, "")
	elsewhere := nats.NewMsg("pq.others.import")
	elsewhere.Data, elsewhere.Header = got.Data, got.Header
	c.acknowledged(c.askMsg(elsewhere))
	other := c.ask("pq.others.get."+id, "")
	if other.Header.Get("PQ-Key") != key {
		t.Errorf("imported: %v", other.Header)
	}
	item := c.leased("x")
	item.Subject, item.Reply = "pq.third.push", ""
	pushed := c.acknowledged(c.askMsg(item))
	if m := c.ask("pq.third.get."+pushed.ID, ""); m.Header.Get("PQ-Key") != key {
		t.Errorf("pushed elsewhere: %v", m.Header)
	}
	c.accepted(c.raw(item.Header.Get("PQ-Ack"), "+TERM"))
	if m := c.pop("pq.jobs-dead.pop.min", ""); m.Header.Get("PQ-Key") != key {
		t.Errorf("dead: %v", m.Header)
	}
	c.push("pq.jobs.push", "y", "PQ-Unique", "doc", "PQ-Key", "a")
	c.refusedPush(c.ask("pq.jobs.push", "z", "PQ-Unique", "doc", "PQ-Key", "b", "PQ-On-Conflict", "replace"), 409, "another_key")
}

// The acknowledgement of a +NXT frees its key for the pop of that +NXT, also behind a pop
// of the same transaction that found the key blocked.
func TestNextBehindBlockedPop(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	c.ask("pq.jobs.admin.config", `{"key_limit":1,"lease":"1h"}`)
	c.push("pq.jobs.push.0", "a1", "PQ-Key", "a")
	c.push("pq.jobs.push.1", "a2", "PQ-Key", "a")
	held := c.leased("a1")
	c.push("pq.jobs.push.0", "nobody's")
	_, all := c.together(db,
		func() answers { return c.send("pq.jobs.pop.min", "") },
		func() answers { return c.send(held.Reply, "+NXT") })
	c.refused(c.next(all[0]), 404, "blocked")
	if m := c.next(all[1]); string(m.Data) != "a2" {
		t.Errorf("the next one is %q, %v", m.Data, m.Header)
	}
}

// A pop that begins to wait hears of the key that a +NXT of the same transaction frees,
// when that takes nothing itself.
func TestWaitingPopBesideRefusedNext(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	c.ask("pq.jobs.admin.config", `{"key_limit":1,"lease":"1h"}`)
	c.push("pq.jobs.push.0", "a1", "PQ-Key", "a")
	c.push("pq.jobs.push.1", "a2", "PQ-Key", "a")
	held := c.leased("a1")
	c.push("pq.jobs.push.0", "nobody's")
	_, all := c.together(db,
		func() answers { return c.send("pq.jobs.pop.min", "", "PQ-Wait", "1h") },
		func() answers { return c.send(held.Reply, "+NXT", "PQ-Band", "1..1") })
	c.refused(c.next(all[1]), 409, "only_min")
	if m := c.next(all[0]); string(m.Data) != "a2" {
		t.Errorf("the waiting pop got %q, %v", m.Data, m.Header)
	}
}

// Two bridges together keep to a limit.
func TestKeyLimitOfTwoBridges(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.second(bridge.Options{})
	c.ask("pq.jobs.admin.config", `{"key_limit":3}`)
	const items = 60
	for range items {
		c.key("a", "item")
	}
	answered := make(chan *nats.Msg)
	const pops = 20
	for range pops {
		waits := c.send("pq.jobs.pop.min", "", "PQ-Lease", "1m", "PQ-Wait", forever)
		go func() {
			select {
			case m := <-waits.came:
				answered <- m
			case <-t.Context().Done():
			}
		}()
	}
	var held []*nats.Msg
	for n := range pops {
		m := c.next(answers{came: answered})
		if string(m.Data) != "item" {
			t.Fatalf("%q, %v", m.Data, m.Header)
		}
		held = append(held, m)
		if info := c.info("jobs"); len(held) > 3 || info.Leased > 3 {
			t.Errorf("%d items are leased, %d are held", info.Leased, len(held))
		}
		if len(held) == 3 || n >= pops-3 {
			c.accepted(c.raw(held[0].Header.Get("PQ-Ack"), "+ACK"))
			held = held[1:]
		}
	}
}

// Get says how many ready items of its key go before an item.
func TestKeyAhead(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.key("ann", "ann 1")
	c.key("bob", "bob 1")
	second, third := c.key("ann", "ann 2"), c.key("ann", "ann 3")
	nobodys := c.push("pq.jobs.push", "nobody's").ID
	c.leased("ann 1")
	for id, want := range map[string]string{second: "0", third: "1", nobodys: ""} {
		if got := c.ask("pq.jobs.get."+id, "").Header.Get("PQ-Key-Ahead"); got != want {
			t.Errorf("PQ-Key-Ahead is %q, expected %q", got, want)
		}
	}
	m := c.ask("pq.jobs.get."+third, "")
	m.Subject, m.Reply = "pq.copy.import", ""
	c.acknowledged(c.askMsg(&nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})) // the header is no hindrance
}

// info says what a queue remembers of ids, and of the tokens of keys.
func TestInfoShowsWhatIsRemembered(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"key_rate":"2/24h","lease":"1m"}`)
	for _, key := range []string{"a", "b", "c"} {
		c.push("pq.jobs.push", "x", "PQ-Key", key, "Nats-Msg-Id", key)
	}
	if i := c.info("jobs"); i.Remembered != 3 || i.KeysOwing != 0 {
		t.Errorf("%d ids are remembered, and %d keys owe tokens", i.Remembered, i.KeysOwing)
	}
	for range 2 {
		c.accepted(c.raw(c.ask("pq.jobs.pop.min", "").Reply, "+ACK"))
	}
	c.ask("pq.jobs.admin.purge", "")
	if i := c.info("jobs"); i.Remembered != 3 || i.KeysOwing != 2 {
		t.Errorf("after a purge %d ids are remembered, and %d keys owe tokens", i.Remembered, i.KeysOwing)
	}
}
