//go:build fdb && benchfdb

package performance_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/testenv"
)

// TestCostsOfVerbs measures what requests of 64 clients to one queue ask of FoundationDB through one bridge and through
// three: transactions, conflicts, rows and ranges read, and rows written, runs that lost a conflict included.
func TestCostsOfVerbs(t *testing.T) {
	const clients, each = 64, 50
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| request\t| bridges\t| transactions\t| conflicts\t| reads\t| writes\t|")
	for _, bridges := range []int{1, 3} {
		c := newCountedBridges(t, bridges, clients)
		leased := make(chan string, clients*each)
		lease := func(nc *nats.Conn) *nats.Msg {
			reply := c.ask(nc, "pq.jobs.pop.min", "", nats.Header{"PQ-Lease": {"1h"}})
			leased <- reply.Reply
			return reply
		}
		pop := func(nc *nats.Conn) *nats.Msg { return c.ask(nc, "pq.jobs.pop.min", "", nil) }
		push := func(nc *nats.Conn) *nats.Msg { return c.ask(nc, "pq.jobs.push.5", string(make([]byte, 100)), nil) }
		for range 3 {
			c.all(each, push)
		}
		for _, verb := range []struct {
			name string
			do   func(*nats.Conn) *nats.Msg
		}{
			{"push", push},
			{"pop, without an owner at first", pop},
			{"pop", pop},
			{"lease", lease},
			{"`-NAK`", func(nc *nats.Conn) *nats.Msg { return c.ask(nc, <-leased, "-NAK", nil) }},
			{"lease", lease},
			{"`+ACK`", func(nc *nats.Conn) *nats.Msg { return c.ask(nc, <-leased, "+ACK", nil) }},
			{"peek", func(nc *nats.Conn) *nats.Msg { return c.ask(nc, "pq.jobs.peek.min", "", nil) }},
			{"info", func(nc *nats.Conn) *nats.Msg { return c.ask(nc, "pq.jobs.info", "", nil) }},
		} {
			before := c.counts()
			c.all(each, verb.do)
			after := c.counts()
			fmt.Fprintf(w, "| %s\t| %d", verb.name, bridges)
			for i := range after {
				fmt.Fprintf(w, "\t| %.3f", float64(after[i]-before[i])/(clients*each))
			}
			fmt.Fprintln(w, "\t|")
		}
	}
	w.Flush()
	t.Logf("for each of %d requests\n%s", clients*each, &table)
}

// countedBridges are clients of bridges whose stores count what they are asked for.
type countedBridges struct {
	testing.TB
	conns                             []*nats.Conn
	transactions, runs, reads, writes atomic.Int64
}

func newCountedBridges(t *testing.T, bridges, clients int) *countedBridges {
	t.Helper()
	c := &countedBridges{TB: t}
	cluster, server := fdbtest.Shared(t), testenv.NATS(t)
	prefix := fdbtest.Prefix()
	for range bridges {
		base, err := fdb.Open(cluster.File, fdb.Options{OpenTimeout: testenv.Patience(), Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { base.Close() })
		store, err := fdbpq.Open(t.Context(), &countedDB{base, c}, fdbpq.Options{})
		if err != nil {
			t.Fatal(err)
		}
		b, err := bridge.Start(t.Context(), server.Connect(t, bridge.ConnectOptions(slog.New(slog.DiscardHandler))...), store, bridge.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience())
			defer cancel()
			if err := b.Drain(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for range clients {
		c.conns = append(c.conns, server.Connect(t))
	}
	return c
}

// ask sends a request that has to be done.
func (c *countedBridges) ask(nc *nats.Conn, subject, body string, header nats.Header) *nats.Msg {
	reply, err := nc.RequestMsg(&nats.Msg{Subject: subject, Data: []byte(body), Header: header}, testenv.Patience())
	if err != nil {
		c.Errorf("%s: %v", subject, err)
		return &nats.Msg{}
	}
	if code := reply.Header.Get("Nats-Service-Error-Code"); code != "" {
		c.Errorf("%s is answered %s: %s", subject, code, reply.Header.Get("Nats-Service-Error"))
	}
	return reply
}

// all has each client do something a number of times.
func (c *countedBridges) all(each int, do func(*nats.Conn) *nats.Msg) {
	var all sync.WaitGroup
	for _, nc := range c.conns {
		all.Go(func() {
			for range each {
				do(nc)
			}
		})
	}
	all.Wait()
}

// counts are transactions, conflicts, reads and writes so far.
func (c *countedBridges) counts() [4]int64 {
	n := c.transactions.Load()
	return [4]int64{n, c.runs.Load() - n, c.reads.Load(), c.writes.Load()}
}

// countedDB counts what its transactions ask of the store.
type countedDB struct {
	kv.DB
	counts *countedBridges
}

func (d *countedDB) Update(ctx context.Context, fn func(kv.Tx) error) error {
	d.counts.transactions.Add(1)
	return d.DB.Update(ctx, func(tx kv.Tx) error {
		d.counts.runs.Add(1)
		return fn(&countedTx{tx, countedReader{tx, d.counts}})
	})
}

func (d *countedDB) View(ctx context.Context, fn func(kv.Reader) error) error {
	d.counts.transactions.Add(1)
	return d.DB.View(ctx, func(r kv.Reader) error {
		d.counts.runs.Add(1)
		return fn(countedReader{r, d.counts})
	})
}

type countedReader struct {
	kv.Reader
	counts *countedBridges
}

func (r countedReader) Get(key []byte) ([]byte, error) {
	r.counts.reads.Add(1)
	return r.Reader.Get(key)
}

func (r countedReader) GetAll(keys [][]byte) ([][]byte, error) {
	r.counts.reads.Add(int64(len(keys)))
	return r.Reader.GetAll(keys)
}

func (r countedReader) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	r.counts.reads.Add(1)
	return r.Reader.Range(begin, end, opts)
}

type countedTx struct {
	kv.Tx
	reader countedReader
}

func (t *countedTx) Get(key []byte) ([]byte, error)         { return t.reader.Get(key) }
func (t *countedTx) GetAll(keys [][]byte) ([][]byte, error) { return t.reader.GetAll(keys) }
func (t *countedTx) Snapshot() kv.Reader                    { return countedReader{t.Tx.Snapshot(), t.reader.counts} }
func (t *countedTx) Set(key, value []byte)                  { t.reader.counts.writes.Add(1); t.Tx.Set(key, value) }
func (t *countedTx) Clear(key []byte)                       { t.reader.counts.writes.Add(1); t.Tx.Clear(key) }
func (t *countedTx) ClearRange(begin, end []byte) {
	t.reader.counts.writes.Add(1)
	t.Tx.ClearRange(begin, end)
}
func (t *countedTx) Add(key []byte, delta int64) { t.reader.counts.writes.Add(1); t.Tx.Add(key, delta) }
func (t *countedTx) Max(key []byte, value uint64) {
	t.reader.counts.writes.Add(1)
	t.Tx.Max(key, value)
}

func (t *countedTx) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	return t.reader.Range(begin, end, opts)
}
