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

// BenchmarkNeighbours compares pushes to 1,000 queues beside a bad one with the same pushes on their own, in the same run: the
// 99th percentile of each, and the ratio. Four clients push to the bad queue:
//
//   - hanging: a read of its rows takes two seconds
//   - slow: a read of its rows takes 30 ms
//   - large: bundles of 1,000 items of 500 bytes
//   - failing: bundles that are refused, for the sake of their last item
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
	for _, bad := range []struct {
		name   string
		delay  time.Duration // of reads of its rows
		body   []byte
		bundle string
		config string
	}{
		{name: "hanging", delay: 2 * time.Second, body: []byte("x")},
		{name: "slow", delay: 30 * time.Millisecond, body: []byte("x")},
		{name: "large", body: long.Bytes(), bundle: "1000"},
		{name: "failing", body: refused.Bytes(), bundle: "100", config: `{"max_length":99}`},
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
			good := newGood(c, 64)
			if bad.config != "" {
				c.ask("pq.neighbour.admin.config", bad.config)
			}
			var alone, beside []time.Duration
			for b.Loop() {
				good.push(time.Second)
				for range 6 {
					alone = append(alone, good.push(time.Second)...)
					end := c.pester(bad.body, bad.bundle)
					db.delay.Store(int64(bad.delay))
					beside = append(beside, good.push(time.Second)...)
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

// pester has four clients push to the bad queue until end is called.
func (c *client) pester(body []byte, bundle string) (end func()) {
	return c.fourPush(func() *nats.Msg {
		m := &nats.Msg{Subject: "pq.neighbour.push", Data: body}
		if bundle != "" {
			m.Header = h("PQ-Bundle", bundle)
		}
		return m
	})
}

// good are clients of 1,000 queues.
type good struct {
	testing.TB
	clients []*nats.Conn
}

func newGood(c *client, clients int) *good {
	g := &good{TB: c.TB}
	for range clients {
		g.clients = append(g.clients, c.env.NATS.Connect(c.TB))
	}
	for i := range 1000 {
		c.push(fmt.Sprintf("pq.good-%d.push", i), "x")
	}
	return g
}

// push has all clients push for a while, and returns how long each push took.
func (g *good) push(d time.Duration) []time.Duration {
	times := make([][]time.Duration, len(g.clients))
	begun := time.Now()
	var pushing sync.WaitGroup
	for i, c := range g.clients {
		pushing.Go(func() {
			for time.Since(begun) < d {
				before := time.Now()
				m, err := c.Request(fmt.Sprintf("pq.good-%d.push", rand.IntN(1000)), make([]byte, 100), testenv.Patience())
				if err != nil || m.Header != nil {
					g.Errorf("a push: %v, %v", m, err)
					return
				}
				times[i] = append(times[i], time.Since(before))
			}
		})
	}
	pushing.Wait()
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
