package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// losing is a store in which every transaction conflicts once, while the test asks for
// it.
type losing struct {
	kv.DB
	on atomic.Bool
}

var errLost = errors.New("lost")

func (d *losing) Update(ctx context.Context, fn func(kv.Tx) error) error {
	if d.on.Load() {
		err := d.DB.Update(ctx, func(tx kv.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			return errLost
		})
		if !errors.Is(err, errLost) {
			return err
		}
	}
	return d.DB.Update(ctx, fn)
}

// In a store that one bridge opens, a transaction conflicts with that bridge's own ones, and
// there are no others to pass requests on to.
func TestNoOwnersInAnExclusiveStore(t *testing.T) {
	t.Parallel()
	store := &losing{DB: faulty(t)}
	c := serveOn(t, store, bridge.Options{Exclusive: true})
	said := c.hear(peers.Inbox(c.env.Store.ID()) + ".>")
	store.on.Store(true)
	for range 2 {
		c.push("pq.jobs.push", "x")
		c.pop("pq.jobs.pop.min", "")
	}
	if n := len(said.came); n > 0 {
		t.Errorf("the bridge said %d things to others", n)
	}
}

// A transaction that runs again announces what has happened once.
func TestEventsOfTheLastRun(t *testing.T) {
	t.Parallel()
	for name, exclusive := range map[string]bool{"own store": true, "shared store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &losing{DB: faulty(t)}
			c := serveOn(t, store, bridge.Options{Exclusive: exclusive})
			events := c.hear("pq.jobs.event.dead")
			acks := c.leases(2)
			store.on.Store(true)
			for _, ack := range acks {
				c.accepted(c.raw(ack, "+TERM"))
			}
			if n := len(events.came); n != 2 {
				t.Errorf("%d events, expected one for each item", n)
			}
		})
	}
}

// contested starts bridges on one store that contest the queue jobs, and returns its owner
// before the others.
func contested(t *testing.T, n int) (c *client, owner *bridge.Bridge, others []*bridge.Bridge) {
	t.Helper()
	return contestedAs(t, n, "jobs", bridge.Options{})
}

// contestedAs is contested for any queue, and any options of the bridges.
func contestedAs(t *testing.T, n int, queue string, o bridge.Options) (c *client, owner *bridge.Bridge, others []*bridge.Bridge) {
	t.Helper()
	db := placed(t)
	c = serveOn(t, db, o)
	bridges := []*bridge.Bridge{c.env.Bridge}
	for range n - 1 {
		bridges = append(bridges, c.second(o))
	}
	testenv.Await(t, "the bridges agree on an owner", func() bool {
		owner, others = nil, nil
		names := make(map[string]bool)
		for _, b := range bridges {
			name, own := bridge.Owner(b, queue)
			if names[name] = true; own {
				owner = b
			} else {
				others = append(others, b)
			}
		}
		if len(names) == 1 && owner != nil {
			return true
		}
		bridge.Contest(c.env.Bridge, queue)
		return false
	})
	t.Cleanup(func() {
		for _, b := range bridges {
			if b != c.env.Bridge { // which ends by itself
				c.drain(b)
			}
		}
	})
	return c, owner, others
}

// popAll pops with clients side by side until all items have come, each once. A pop that
// finds no bridge, or one that ends, asks again.
func (c *client) popAll(subject string, clients, items int) {
	c.Helper()
	var mu sync.Mutex
	seen := make(map[string]bool)
	left := items
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			nc := c.another()
			for {
				mu.Lock()
				done := left == 0
				mu.Unlock()
				if done {
					return
				}
				m, err := nc.RequestMsg(&nats.Msg{Subject: subject}, testenv.Patience())
				if err != nil && !errors.Is(err, nats.ErrNoResponders) {
					c.Error(err)
					return
				}
				if err != nil || m.Header.Get("PQ-Id") == "" {
					continue
				}
				mu.Lock()
				if seen[string(m.Data)] {
					c.Errorf("item %s was popped twice", m.Data)
				}
				seen[string(m.Data)] = true
				left--
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// Of several bridges that are asked to pop one queue, one pops for all.
func TestOneBridgePopsAQueue(t *testing.T) {
	t.Parallel()
	c, owner, others := contested(t, 3)
	const clients, items = 8, 400
	for i := range items {
		c.push("pq.jobs.push.5", fmt.Sprint(i))
	}
	c.popAll("pq.jobs.pop.min", clients, items)
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "empty")
	_, taken := bridge.Passed(owner)
	var passed int64
	for _, b := range others {
		of, _ := bridge.Passed(b)
		passed += of
	}
	if taken < items/3 {
		t.Errorf("the owner has taken %d of more than %d requests from others, which have passed on %d", taken, items, passed)
	}
}

// One bridge pops a queue of a tenant for all, too.
func TestOneBridgePopsATenantsQueue(t *testing.T) {
	t.Parallel()
	c, owner, others := contestedAs(t, 2, "acme.jobs", bridge.Options{Tenants: func(string) bridge.Quotas { return bridge.Quotas{} }})
	const items = 40
	for i := range items {
		c.push("pq.acme.jobs.push.5", fmt.Sprint(i))
	}
	c.popAll("pq.acme.jobs.pop.min", 4, items)
	passed, _ := bridge.Passed(others[0])
	if _, taken := bridge.Passed(owner); taken == 0 || passed == 0 {
		t.Errorf("%d requests are passed on to the owner, which takes %d", passed, taken)
	}
}

// Requests that another bridge serves are answered as if this one had served them: pops with
// headers and options, pops that wait, pops of +NXT, and refused pops.
func TestRequestsOfOtherBridges(t *testing.T) {
	t.Parallel()
	c, owner, others := contested(t, 2)
	took := func() int64 {
		_, taken := bridge.Passed(owner)
		return taken
	}
	// Each is asked until the other bridge has got one of them.
	passed := func(what string, ask func()) {
		t.Helper()
		before := took()
		testenv.Await(t, what+" is passed on", func() bool {
			c.push("pq.jobs.push.5", "item")
			ask()
			return took() > before
		})
	}
	passed("a pop", func() { c.pop("pq.jobs.pop.min", "") })
	passed("a lease with headers", func() {
		m := c.ask("pq.jobs.pop.max", "", "PQ-Lease", "1h", "PQ-Band", "1..9")
		if m.Reply == "" || m.Header.Get("PQ-Id") == "" {
			t.Fatalf("leased %v", m)
		}
		c.accepted(c.raw(m.Reply, "+ACK"))
	})
	c.push("pq.jobs.push.5", "item")
	leased := c.ask("pq.jobs.pop.min", `{"lease":3600000000000}`)
	passed("+NXT", func() {
		next := c.ask(leased.Reply, "+NXT")
		if next.Reply == "" || next.Header.Get("PQ-Id") == leased.Header.Get("PQ-Id") {
			t.Fatalf("+NXT got %v", next)
		}
		leased = next
	})
	passed("a settlement", func() {
		c.accepted(c.raw(leased.Reply, "+WPI"))
	})
	c.accepted(c.raw(leased.Reply, "+ACK"))
	passed("a malformed pop", func() { c.refused(c.ask("pq.jobs.pop.min", "malformed"), 400, "") })
	passed("headers that are none of a pop", func() { c.refused(c.ask("pq.jobs.pop.min", "", "PQ-Nonsense", "x"), 400, "") })
	passed("a pop that waits", func() {
		c.ask("pq.jobs.admin.purge", "")
		waiting := c.send("pq.jobs.pop.min", "", "PQ-Wait", "1h")
		c.waiting("jobs", 1)
		c.push("pq.jobs.push", "late")
		if m := c.next(waiting); string(m.Data) != "late" {
			t.Fatalf("waited for %q", m.Data)
		}
	})
	if passed, _ := bridge.Passed(others[0]); passed < 6 {
		t.Errorf("%d requests are passed on, expected 6", passed)
	}
}

// A client whose request went to an owner that has died hears that the result is unknown. So
// do settlements.
func TestOwnerThatIsGone(t *testing.T) {
	nightly.Only(t, "TestOwnerThatDoesNotAnswer leaves unknown what was sent")
	t.Parallel()
	u := serverWithUsers(t, map[string]subjects.Permissions{
		"gone":   {Publish: []string{subjects.Inbox}}, // says that it is there, and gets nothing
		"client": {Publish: []string{"pq.>"}, Subscribe: []string{subjects.Inbox}},
	})
	u.env.Bridge = u.start(t, bridge.Options{})
	c := u.connect(t, "client")
	nc := u.env.NATS.Connect(t, nats.UserInfo("gone", "gone"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	gone := peers.NewOwners(nc, peers.Identity{ID: "gone", Prefix: "pq", StoreID: u.env.Store.ID()},
		peers.Store{Secret: u.env.Store.Secret(), Time: u.env.Store.Time}, slog.New(slog.DiscardHandler), peers.Handlers{})
	defer gone.Stop()
	queue := ""
	i := 0
	testenv.Await(t, "the other bridge owns a queue", func() bool {
		gone.Announce()
		i++
		queue = fmt.Sprint("queue-", i%16)
		bridge.Contest(u.env.Bridge, queue)
		id, _ := bridge.Owner(u.env.Bridge, queue)
		return id == "gone"
	})
	var pop, settlement *nats.Msg
	testenv.Await(t, "a pop and a settlement are unknown", func() bool {
		gone.Announce()
		popped, settled := c.send("pq."+queue+".pop.min", ""), c.send("pq."+queue+".ack.any.lease", "+ACK")
		pop, settlement = c.next(popped), c.next(settled)
		return pop.Header.Get("Nats-Service-Error-Code") == "504" && settlement.Header.Get("Nats-Service-Error-Code") == "504"
	})
	if pop.Header.Get("Status") != "" || pop.Header.Get("Nats-Service-Error") == "" {
		t.Errorf("a pop is answered %v", pop.Header)
	}
	if settlement.Header.Get("Status") == "" {
		t.Errorf("a settlement is answered %v", settlement.Header)
	}
}

// When an owner drains, no request is lost: others serve those that they could not pass on.
func TestOwnerDrains(t *testing.T) {
	t.Parallel()
	c, owner, _ := contested(t, 3)
	const clients, items = 8, 600
	for i := range items {
		c.push("pq.jobs.push.5", fmt.Sprint(i))
	}
	_, before := bridge.Passed(owner)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		testenv.Await(t, "the owner has popped for others", func() bool {
			_, taken := bridge.Passed(owner)
			return taken > before+20
		})
		c.drain(owner)
	}()
	c.popAll("pq.jobs.pop.min", clients, items)
	<-drained
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "empty")
}

// A repeated pop whose wait is over has one more transaction. The bridge does not pass it on, even if the transaction
// loses a conflict with the owner: the message was cut when the wait began, and without its headers the owner would pop
// an item for good for a client that asked for a lease.
func TestPopWhoseWaitIsOverStays(t *testing.T) {
	t.Parallel()
	const queues = 64 // so many that the other bridge owns some of them
	store := &losing{DB: faulty(t)}
	c := serveOn(t, store, bridge.Options{})
	passed := make(chan *nats.Msg, queues)
	other := peers.NewOwners(c.env.NATS.Connect(t), peers.Identity{ID: "other", Prefix: "pq", StoreID: c.env.Store.ID()},
		peers.Store{Secret: c.env.Store.Secret(), Time: c.env.Store.Time}, slog.New(slog.DiscardHandler),
		peers.Handlers{Serve: func(m *nats.Msg) { passed <- m }})
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Stop()
	answers := c.hear(c.NewInbox())
	for i := range queues {
		m := &nats.Msg{
			Subject: fmt.Sprintf("pq.queue-%d.pop.min", i), Reply: answers.inbox,
			Header: h("PQ-Lease", "1h", "PQ-Wait", "2s", "Nats-Msg-Id", "id", "PQ-Repeat", "true"),
		}
		if err := c.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Await(t, "the pops wait", func() bool { return c.total() == queues || len(answers.came) > 0 })
	for i := range queues {
		other.Lost(fmt.Sprint("queue-", i)) // so both bridges know who owns it
	}
	testenv.Await(t, "the other bridge owns some of the queues", func() bool {
		for i := range queues {
			if id, _ := bridge.Owner(c.env.Bridge, fmt.Sprint("queue-", i)); id == "other" {
				return true
			}
		}
		return false
	})
	store.on.Store(true)
	for range queues {
		select {
		case m := <-answers.came:
			if status := m.Header.Get("Status"); status != "404" && status != "408" {
				t.Errorf("a pop is answered %v", m.Header)
			}
		case m := <-passed:
			t.Errorf("%s was passed on, with the headers %v", m.Subject, m.Header)
		}
	}
}
