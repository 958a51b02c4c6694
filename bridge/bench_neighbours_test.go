package bridge_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/testenv"
)

// BenchmarkNeighbours compares requests to 1,000 queues beside a bad one with the same requests on their own, in the same run: the
// 99th percentile of each, and the ratio. Requests are pushes, or leases with their acknowledgement. Four clients ask the bad queue
// for the same:
//
//   - hanging: a read of its rows takes two seconds
//   - slow: a read of its rows takes 30 ms
//   - large: bundles of 1,000 items of 500 bytes
//   - failing: bundles that are refused, for the sake of their last item; leases of an item that no answer can carry
//
// The machine should be idle.
//
//	go test ./bridge -run '^$' -bench Neighbours -benchtime 1x
func BenchmarkNeighbours(b *testing.B) {
	var long, refused bytes.Buffer
	for range 1000 {
		long.WriteString(frame(strings.Repeat("x", 500)))
	}
	for i := range 100 {
		refused.WriteString(frame(fmt.Sprint(i), "Nats-Msg-Id", fmt.Sprint(i)))
	}
	push := &nats.Msg{Subject: "pq.neighbour.push", Data: []byte("x")}
	pushLong := &nats.Msg{Subject: "pq.neighbour.push", Data: long.Bytes(), Header: h("PQ-Bundle", "1000")}
	lease := &nats.Msg{Subject: "pq.neighbour.pop.min", Header: h("PQ-Lease", "1h")}
	leaseLong := &nats.Msg{Subject: "pq.neighbour.pop.min", Header: h("PQ-Lease", "1h", "PQ-Bundle", "1000")}
	for _, bad := range []struct {
		name    string
		leases  bool          // the requests are leases, not pushes
		delay   time.Duration // of reads of its rows
		ask     []*nats.Msg   // in turns
		prepare func(c *client)
	}{
		{name: "push/hanging", delay: 2 * time.Second, ask: []*nats.Msg{push}},
		{name: "push/slow", delay: 30 * time.Millisecond, ask: []*nats.Msg{push}},
		{name: "push/large", ask: []*nats.Msg{pushLong}},
		{name: "push/failing", ask: []*nats.Msg{{Subject: "pq.neighbour.push", Data: refused.Bytes(), Header: h("PQ-Bundle", "100")}},
			prepare: func(c *client) { c.ask("pq.neighbour.admin.config", `{"max_length":99}`) }},
		{name: "lease/hanging", leases: true, delay: 2 * time.Second, ask: []*nats.Msg{lease}},
		{name: "lease/slow", leases: true, delay: 30 * time.Millisecond, ask: []*nats.Msg{lease}},
		{name: "lease/large", leases: true, ask: []*nats.Msg{pushLong, leaseLong}},
		{name: "lease/failing", leases: true, ask: []*nats.Msg{lease},
			prepare: func(c *client) { c.pushPastTo("neighbour", fdbpq.NewItem{Payload: make([]byte, fdbpq.MaxContent)}) }},
	} {
		b.Run(bad.name, func(b *testing.B) {
			db := &delaying{DB: localStore(b), queue: []byte("neighbour")}
			env := &testenv.Bridged{NATS: testenv.NATS(b), Store: testenv.OpenStore(b, db, fdbpq.Options{Exclusive: true})}
			var err error
			if env.Bridge, err = bridge.Start(context.Background(), env.NATS.Connect(b), env.Store, chosen([]bridge.Options{{Exclusive: true}})); err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := env.Bridge.Drain(context.Background()); err != nil {
					b.Error(err)
				}
			}()
			c := &client{TB: b, Conn: env.NATS.Connect(b), env: env}
			good := newGood(c, 64, bad.leases)
			if bad.prepare != nil {
				bad.prepare(c)
			}
			var next atomic.Int64
			var alone, beside []time.Duration
			for b.Loop() {
				good.ask(time.Second)
				for range 6 {
					alone = append(alone, good.ask(time.Second)...)
					end := c.fourPush(func() *nats.Msg { return bad.ask[int(next.Add(1))%len(bad.ask)] })
					db.delay.Store(int64(bad.delay))
					beside = append(beside, good.ask(time.Second)...)
					db.delay.Store(0)
					end()
				}
			}
			reportRatio(b, alone, beside)
			b.ReportMetric(float64(len(beside))/float64(len(alone)), "rate")
		})
	}
}

// localStore opens an embedded store on the disk.
func localStore(b *testing.B) kv.DB {
	db, err := local.Open(b.TempDir(), local.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return db
}

// good are clients of 1,000 queues.
type good struct {
	testing.TB
	clients []*nats.Conn
	leases  bool // they lease and acknowledge what they have pushed
}

func newGood(c *client, clients int, leases bool) *good {
	g := &good{TB: c.TB, leases: leases}
	for range clients {
		g.clients = append(g.clients, c.env.NATS.Connect(c.TB))
	}
	for i := range 1000 {
		c.push(fmt.Sprintf("pq.good-%d.push", i), "x")
	}
	return g
}

// ask has all clients ask for a while, and returns how long each push took, or each lease with its acknowledgement.
func (g *good) ask(d time.Duration) []time.Duration {
	times := make([][]time.Duration, len(g.clients))
	begun := time.Now()
	var asking sync.WaitGroup
	for i, c := range g.clients {
		asking.Go(func() {
			for time.Since(begun) < d {
				queue := fmt.Sprintf("pq.good-%d.", rand.IntN(1000))
				before := time.Now()
				m, err := c.Request(queue+"push", make([]byte, 100), testenv.Patience())
				if g.leases && err == nil {
					before = time.Now()
					if m, err = c.RequestMsg(&nats.Msg{Subject: queue + "pop.min", Header: h("PQ-Lease", "1h")}, testenv.Patience()); err == nil {
						m, err = c.Request(m.Header.Get("PQ-Ack"), nil, testenv.Patience())
					}
				}
				if err != nil || m.Header != nil {
					g.Errorf("%v, %v", m, err)
					return
				}
				times[i] = append(times[i], time.Since(before))
			}
		})
	}
	asking.Wait()
	return slices.Concat(times...)
}

// delaying is a store in which each read of a queue's rows takes long.
type delaying struct {
	kv.DB
	queue []byte
	delay atomic.Int64
}

func (s *delaying) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return s.DB.Update(ctx, func(tx kv.Tx) error { return fn(&delayingTx{tx, s}) })
}

type delayingTx struct {
	kv.Tx
	of *delaying
}

func (t *delayingTx) Get(key []byte) ([]byte, error) {
	if d := t.of.delay.Load(); d > 0 && bytes.Contains(key, t.of.queue) {
		<-time.After(time.Duration(d))
	}
	return t.Tx.Get(key)
}
