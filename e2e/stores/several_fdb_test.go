//go:build fdb

package stores_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/testenv"
)

// Two daemons with one store and a NATS server each, so that the test chooses which one
// serves: the effects of one are visible to the other at once.
func TestSeveralBridges(t *testing.T) {
	cluster := fdbtest.Shared(t)
	store := cluster.Setting()
	var daemons []*testenv.Process
	var ncs []*nats.Conn
	for range 2 {
		d := testenv.Daemon(t, store)
		daemons, ncs = append(daemons, d), append(ncs, d.Connect(t))
	}
	a, b := ncs[0], ncs[1]

	// The other daemon has the pushed items, in one order.
	for i := range 20 {
		pqd.Push(t, ncs[i%2], "jobs", 20-i, fmt.Sprint(20-i))
	}
	for i := range 20 {
		if got := pqd.Pop(t, ncs[(i+1)%2], "jobs", "min"); got != fmt.Sprint(i+1) {
			t.Fatalf("pop %d: %s", i+1, got)
		}
	}
	for i := range 20 {
		pqd.Push(t, ncs[i%2], "jobs", 5, fmt.Sprint(i))
	}
	for i := range 20 {
		if got := pqd.Pop(t, ncs[i/2%2], "jobs", "min"); got != fmt.Sprint(i) {
			t.Fatalf("of equal priority, pop %d: %s", i, got)
		}
	}

	// One lists the queues that the other created.
	pqd.Push(t, a, "made-by-a", 0, "x")
	pqd.Push(t, b, "made-by-b", 0, "x")
	for _, nc := range ncs {
		var list struct{ Queues []string }
		if err := json.Unmarshal(pqd.Request(t, nc, "pq._sys.list", "").Data, &list); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(list.Queues, []string{"jobs", "made-by-a", "made-by-b"}) {
			t.Errorf("_sys.list: %v", list.Queues)
		}
	}

	// A pop that waits at one is woken by a push to the other.
	waiting := make(chan *nats.Msg, 1)
	go func() {
		m := &nats.Msg{Subject: "pq.jobs.pop.min", Header: nats.Header{"PQ-Wait": {"110s"}, "PQ-Lease": {"1h"}}}
		answer, err := a.RequestMsg(m, testenv.Patience())
		if err != nil {
			t.Errorf("wait: %v", err)
		}
		waiting <- answer
	}()
	awaitWaiter(t, a, "jobs")
	pqd.Push(t, b, "jobs", 5, "woken")
	leased := <-waiting
	if leased == nil || string(leased.Data) != "woken" {
		t.Fatalf("the waiting pop got %v", leased)
	}

	// Each settles leases of the other, and knows when they are over.
	if m := pqd.Request(t, b, leased.Reply, "+WPI"); m.Header.Get("Nats-Service-Error") != "" {
		t.Errorf("+WPI at the other bridge: %v", m.Header)
	}
	if m := pqd.Request(t, b, leased.Reply, "-NAK"); m.Header.Get("Nats-Service-Error") != "" {
		t.Errorf("-NAK at the other bridge: %v", m.Header)
	}
	leased = pqd.Request(t, b, "pq.jobs.pop.min", "", "PQ-Lease", "1h")
	if leased.Header.Get("PQ-Deliveries") != "2" {
		t.Errorf("leased again: %v", leased.Header)
	}
	if m := pqd.Request(t, a, leased.Reply, "+ACK"); m.Header.Get("Nats-Service-Error") != "" {
		t.Errorf("+ACK at the other bridge: %v", m.Header)
	}

	// The remaining one does the due work.
	for i, end := range []*testenv.Process{daemons[0], daemons[1]} {
		other := ncs[1-i]
		pqd.Request(t, other, "pq.jobs.push.5", "due", "PQ-Delay", "100ms")
		if m := pqd.Request(t, other, "pq.jobs.pop.min", "", "PQ-Wait", "110s"); string(m.Data) != "due" {
			t.Errorf("with both there: %q %v", m.Data, m.Header)
		}
		end.Kill(t)
		pqd.Request(t, other, "pq.jobs.push.5", "left alone", "PQ-Delay", "100ms")
		if m := pqd.Request(t, other, "pq.jobs.pop.min", "", "PQ-Wait", "110s"); string(m.Data) != "left alone" {
			t.Errorf("with one of them killed: %q %v", m.Data, m.Header)
		}
		end.Start(t)
	}
	for _, d := range daemons {
		d.Stop(t)
	}
}

// awaitWaiter returns when a pop waits at a bridge.
func awaitWaiter(t *testing.T, nc *nats.Conn, queue string) {
	t.Helper()
	for deadline := testenv.BeginWait(); !deadline.Over(); {
		answer, err := nc.Request("pq."+queue+".info", nil, testenv.Patience())
		if err != nil {
			t.Fatal(err)
		}
		var info struct{ Waiting int }
		if err := json.Unmarshal(answer.Data, &info); err != nil {
			t.Fatal(err)
		}
		if info.Waiting > 0 {
			return
		}
	}
	t.Fatal("no pop waits")
}

// While two daemons on a cluster are restarted by turns, clients that repeat requests
// without a responder, as package client does, notice nothing: no request fails, and no
// item is lost or handled twice.
func TestRollingRestartOnFoundationDB(t *testing.T) {
	const n, restarts = 200, 4
	cluster := fdbtest.Shared(t)
	server := testenv.NATS(t)
	store := cluster.Setting()
	var daemons []*testenv.Process
	for range 2 {
		daemons = append(daemons, testenv.Daemon(t, "NATS_URL="+server.URL(), store))
	}
	queue := func() *client.Queue {
		c, err := client.New(server.Connect(t))
		if err != nil {
			t.Fatal(err)
		}
		return c.Queue("jobs")
	}
	var handled [n]atomic.Int32
	left := make(chan struct{}, 2*n)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var consumers, pushers sync.WaitGroup
	for range 2 {
		consumers.Go(func() {
			err := queue().Consume(ctx, func(_ context.Context, item *client.Item) error {
				handled[item.Priority].Add(1)
				left <- struct{}{}
				return nil
			}, client.ConsumeOptions{
				Workers: 4,
				OnError: func(_ *client.Item, err error) {
					if !errors.Is(err, client.ErrNotFound) { // the first push may come later
						t.Errorf("consume: %v", err)
					}
				},
			})
			if err != nil {
				t.Errorf("consume ended with %v", err)
			}
		})
	}
	var next atomic.Int64
	pushing := make(chan struct{})
	for range 4 {
		pushers.Go(func() {
			q := queue()
			for i := next.Add(1) - 1; i < n; i = next.Add(1) - 1 {
				if i >= n/2 {
					<-pushing // the second half comes during the last restarts, however fast the machine is
				}
				if _, err := q.Push(ctx, nil, client.Priority(i)); err != nil {
					t.Errorf("push %d: %v", i, err)
				}
			}
		})
	}
	for i := range restarts {
		if i == restarts/2 {
			close(pushing)
		}
		d := daemons[i%2]
		d.Stop(t)
		d.Start(t)
	}
	pushers.Wait()
	for range n {
		select {
		case <-left:
		case <-testenv.Late():
			t.Fatal("items are missing")
		}
	}
	stop()
	consumers.Wait()
	for i := range handled {
		if times := handled[i].Load(); times != 1 {
			t.Errorf("item %d was handled %d times", i, times)
		}
	}
	for _, d := range daemons {
		d.Stop(t)
	}
}
