package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/testenv"
)

// Draining under load loses no acknowledged push and leaves no request
// unanswered.
func TestDrainUnderLoad(t *testing.T) {
	t.Parallel()
	c := serve(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	acknowledged := make(map[string]bool)
	popped := make(map[string]bool)
	underWay := make(chan struct{}, 1000)
	for i := range 8 {
		wg.Go(func() {
			c := c.another()
			sub := c.listen()
			for n := 0; ; n++ {
				name := strconv.Itoa(i) + "-" + strconv.Itoa(n)
				m := &nats.Msg{Subject: "pq.jobs.push", Reply: sub.inbox, Data: []byte(name)}
				if i >= 6 {
					m.Subject = "pq.jobs.pop.min"
				}
				if err := c.PublishMsg(m); err != nil {
					t.Error(err)
					return
				}
				answer := c.next(sub)
				if answer.Header.Get("Status") == "503" && answer.Header.Get("Nats-Service-Error") == "" {
					return // no responders: the bridge has gone
				}
				mu.Lock()
				switch {
				case i < 6:
					acknowledged[name] = json.Valid(answer.Data) && !strings.Contains(string(answer.Data), `"error"`)
				case answer.Header.Get("PQ-Id") != "":
					popped[string(answer.Data)] = true
				}
				mu.Unlock()
				if i < 6 {
					select {
					case underWay <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	wait := c.another().send("pq.idle.pop.min", "", "PQ-Wait", "100s")
	for range cap(underWay) {
		<-underWay
	}
	c.drain(c.env.Bridge)
	if m := c.refused(c.next(wait), 409); m.Header.Get("Description") != "Server Shutdown" || m.Header.Get("Status") != "409" {
		t.Errorf("%v", m.Header)
	}
	wg.Wait()
	if err := c.env.Bridge.Ready(); err == nil {
		t.Error("ready after it has ended")
	}

	next, err := bridge.Start(t.Context(), c.env.NATS.Connect(t, bridge.ConnectOptions(nil)...), c.env.Store, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.drain(next)
	if err := next.Ready(); err != nil {
		t.Error(err)
	}
	for {
		sub := c.send("pq.jobs.pop.min", "1000")
		first := c.next(sub)
		if first.Header.Get("PQ-Id") == "" {
			c.refused(first, 404)
			break
		}
		for _, m := range append(c.batch(sub), first) {
			popped[string(m.Data)] = true
		}
	}
	for name, acknowledged := range acknowledged {
		if acknowledged && !popped[name] {
			t.Errorf("push %s was acknowledged and is lost", name)
		}
	}
	if len(acknowledged) < cap(underWay) {
		t.Errorf("only %d pushes", len(acknowledged))
	}
}

// A drain answers the requests in flight, each once. A bundle has an answer for each of what it has, or one for all.
func TestDrainAnswersAll(t *testing.T) {
	t.Parallel()
	c := serve(t)
	const n, bundles, size = 2000, 100, 20
	number := strconv.Itoa(size)
	var leases []string // of a bundle each
	for range bundles {
		c.pushBundle("pq.work.push", slices.Repeat([]string{frame("x")}, size))
		var lines []string
		for _, item := range c.popBundle("pq.work.pop.min", "", "PQ-Bundle", number, "PQ-Lease", "1h") {
			lines = append(lines, item.Header.Get("PQ-Ack"))
		}
		leases = append(leases, strings.Join(lines, "\n"))
	}
	sub, pushes, settlements := c.listen(), c.listen(), c.listen()
	for i := range n {
		m := &nats.Msg{Subject: "pq.jobs.push", Reply: sub.inbox}
		if i%2 == 1 {
			m.Subject = "pq.jobs.pop.min"
			m.Header = h("PQ-Wait", forever)
		}
		if err := c.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		if i%(n/bundles) != 0 {
			continue
		}
		for _, m := range []*nats.Msg{
			{Subject: "pq.more.push", Reply: pushes.inbox, Data: []byte(strings.Repeat(frame("x"), size)), Header: h("PQ-Bundle", number, "PQ-Each", "true")},
			{Subject: "pq.work.ack.bundle.settle", Reply: settlements.inbox, Data: []byte(leases[i/(n/bundles)]), Header: h("PQ-Bundle", number)},
		} {
			if err := c.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	c.drain(c.env.Bridge)
	for range n {
		c.next(sub)
	}
	added, acknowledged := 0, 0
	for range bundles {
		if m := c.next(pushes); m.Header == nil {
			for _, r := range c.eachOf(m, size) {
				if r.Error == nil {
					added++
				}
			}
		} else {
			c.refused(m, 503)
		}
		if m := c.next(settlements); m.Header.Get("PQ-Bundle") == number {
			acknowledged += strings.Count(string(m.Data)+"\n", "+OK\n")
		} else {
			c.refused(m, 503)
		}
	}
	if _, err := c.Request("pq.jobs.push", nil, testenv.Patience()); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("after the end: %v", err)
	}
	for what, answers := range map[string]answers{"request": sub, "bundle of pushes": pushes, "bundle of settlements": settlements} {
		if len(answers.came) > 0 {
			t.Errorf("a %s was answered twice", what)
		}
	}
	next, err := bridge.Start(t.Context(), c.env.NATS.Connect(t, bridge.ConnectOptions(nil)...), c.env.Store, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.drain(next)
	if more, work := c.info("more"), c.info("work"); more.Ready != int64(added) || work.Leased != int64(bundles*size-acknowledged) {
		t.Errorf("%d items were added and %d acknowledged, and there are %+v, %+v", added, acknowledged, more, work)
	}
}

// Without a NATS server a drain ends at once, in order.
func TestDrainWithoutServer(t *testing.T) {
	t.Parallel()
	server, store := testenv.NATS(t), testenv.Store(t)
	nc := server.Connect(t, bridge.ConnectOptions(nil)...)
	b, err := bridge.Start(t.Context(), nc, store, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	down := nc.StatusChanged(nats.RECONNECTING)
	server.Shutdown()
	<-down
	if err := b.Ready(); err == nil {
		t.Error("ready without a server")
	}
	c := &client{TB: t}
	c.drain(b)
	c.drain(b)
}

// A drain waits for requests that have arrived and were not read yet, and returns an
// error if its time does not suffice.
func TestDrainWaitsForWhatHasArrived(t *testing.T) {
	t.Parallel()
	g := &gated{entered: make(chan struct{}, 1), open: make(chan struct{})}
	server := testenv.NATS(t)
	b, err := bridge.Start(t.Context(), server.Connect(t, bridge.ConnectOptions(nil)...), testenv.Store(t), bridge.Options{Tracer: g})
	if err != nil {
		t.Fatal(err)
	}
	c := &client{TB: t, Conn: server.Connect(t)}
	held := c.send("pq.jobs.push.x", "") // malformed: the handler of arrivals refuses it
	select {
	case <-g.entered:
	case <-testenv.Late():
		t.Fatal("the request was not looked at")
	}
	push := c.send("pq.jobs.push", "x")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	drained := make(chan error, 1)
	go func() { drained <- b.Drain(ctx) }()
	account := server.Server().GlobalAccount()
	testenv.Await(t, "the bridge subscribes to no requests", func() bool { return account.Interest("pq.jobs.push") == 0 })
	for range 10 {
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	err = <-drained
	if err == nil || !strings.Contains(err.Error(), "drain pq.>") || !strings.HasSuffix(err.Error(), "\nflush: context canceled") {
		t.Errorf("error %v, want that requests are left and that answers may not have been sent", err)
	}
	close(g.open)
	c.refused(c.next(held), 400)
	c.acknowledged(c.next(push))
}

// A drain without a deadline waits until all is answered.
func TestDrainWithoutDeadline(t *testing.T) {
	t.Parallel()
	c := serve(t)
	waiter := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever)
	c.waiting("jobs", 1)
	if err := c.env.Bridge.Drain(context.Background()); err != nil {
		t.Error(err)
	}
	c.refused(c.next(waiter), 409)
}

// A settlement that arrives during a drain is answered, by the bridge or by the server:
// the subscription to the server's no-responders messages ends before the one to
// settlements.
func TestDrainLeavesNoSettlementUnanswered(t *testing.T) {
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	acks := c.leases(2)
	release := db.blockNext()
	held := c.send(acks[0], "+ACK")
	db.awaitBlocked(t)
	drained := make(chan error, 1)
	go func() { drained <- c.env.Bridge.Drain(context.Background()) }()
	subscribed := func() int { return c.env.NATS.Server().GlobalAccount().Interest("pq.jobs.ack.another.lease") }
	testenv.Await(t, "the bridge subscribes to no settlements", func() bool { return subscribed() == 0 })
	if m := c.raw(acks[1], "+ACK"); m.Header.Get("Status") != "503" || m.Header.Get("Nats-Service-Error") != "" {
		t.Errorf("%v, want no responders", m.Header)
	}
	if len(drained) > 0 {
		t.Error("drained before the settlement in flight was answered")
	}
	release()
	c.accepted(c.next(held))
	if err := <-drained; err != nil {
		t.Error(err)
	}
}

// A drain waits for a transaction that has an item for a waiting pop.
func TestDrainWaitsForWhoHasAnItem(t *testing.T) {
	t.Parallel()
	db := &slow{DB: faulty(t), blocked: make(chan struct{})}
	server, store := testenv.NATS(t), testenv.OpenStore(t, db, fdbpq.Options{})
	b, err := bridge.Start(t.Context(), server.Connect(t, bridge.ConnectOptions(nil)...), store, bridge.Patient(bridge.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	c := &client{TB: t, Conn: server.Connect(t), env: &testenv.Bridged{NATS: server, Store: store, Bridge: b}}
	past, err := fdbpq.Open(t.Context(), db.DB, fdbpq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	waiter := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever)
	c.waiting("jobs", 1)
	release := db.blockNext()
	err = past.Session().Update(t.Context(), func(tx kv.Tx) error {
		_, err := past.Queue("jobs").Push(tx, fdbpq.NewItem{Payload: []byte("x")})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	db.awaitBlocked(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	drained := make(chan error)
	go func() { drained <- b.Drain(ctx) }()
	if err := <-drained; err == nil || !strings.Contains(err.Error(), "work has not ended") {
		t.Errorf("error %v, want that work has not ended", err)
	}
	release()
	if m := c.next(waiter); string(m.Data) != "x" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
}
