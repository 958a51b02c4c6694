//go:build fdb && benchfdb

package performance_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"
	"github.com/apple/foundationdb/bindings/go/src/fdb/subspace"
	appletuple "github.com/apple/foundationdb/bindings/go/src/fdb/tuple"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/fdbpq/recipe"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/internal/tuple"
	"github.com/pqbridge/pqbridge/testenv"
)

const (
	warmTime    = time.Second
	measureTime = 3 * time.Second // of a row
	payloadSize = 100
	priorities  = 10
)

func payload() []byte {
	b := make([]byte, payloadSize)
	rand.Read(b)
	return b
}

const (
	recipeKind = "recipe on apple's bindings"
	pqdKind    = "pqd"
)

func init() {
	kinds[recipeKind] = recipePops
	kinds["pop"] = func(t *testing.T, l task) work { return requests(t, l, "pq.jobs.pop.min", nil) }
	for name, pop := range map[string]func(context.Context, *fdbpq.Store, *fdbpq.Session, int) (fdbpq.Popped, error){
		"recipe": func(ctx context.Context, store *fdbpq.Store, session *fdbpq.Session, n int) (fdbpq.Popped, error) {
			return inSession(ctx, session, n, func(tx kv.Tx, sel fdbpq.Selection) (fdbpq.Popped, error) {
				return recipe.Plain(store.Queue("jobs"), tx, sel)
			})
		},
		"snapshot": func(ctx context.Context, store *fdbpq.Store, session *fdbpq.Session, n int) (fdbpq.Popped, error) {
			return inSession(ctx, session, n, store.Queue("jobs").Pop)
		},
		"staging": func(ctx context.Context, store *fdbpq.Store, _ *fdbpq.Session, n int) (fdbpq.Popped, error) {
			return recipe.New(store).Staged(ctx, "jobs", fdbpq.Selection{Limit: n}, 0)
		},
	} {
		kinds[name] = corePops(pop)
		kinds["bare bridge, "+name] = bareBridge(pop)
	}
}

func inSession(ctx context.Context, session *fdbpq.Session, n int, pop func(kv.Tx, fdbpq.Selection) (fdbpq.Popped, error)) (popped fdbpq.Popped, err error) {
	err = session.Update(ctx, func(tx kv.Tx) (err error) {
		popped, err = pop(tx, fdbpq.Selection{Limit: n})
		return err
	})
	return popped, err
}

var errEmpty = errors.New("the queue is empty: it was not filled with enough for this machine")

// recipePops pops by the documented recipe, as programs do.
func recipePops(t *testing.T, l task) work {
	db, items := openRecipe(t, l.Cluster, l.Prefix)
	var runs, done atomic.Int64
	return work{
		client: func() func() error {
			return func() error {
				_, err := db.Transact(func(tr apple.Transaction) (any, error) {
					runs.Add(1)
					rows, err := tr.GetRange(items, apple.RangeOptions{Limit: 1}).GetSliceWithError()
					if err != nil {
						return nil, err
					}
					if len(rows) == 0 {
						return nil, errEmpty
					}
					tr.Clear(rows[0].Key)
					return nil, nil
				})
				done.Add(1)
				return err
			}
		},
		conflicts: func() int64 { return runs.Load() - done.Load() },
	}
}

func openRecipe(t *testing.T, cluster string, prefix []byte) (apple.Database, subspace.Subspace) {
	t.Helper()
	apple.MustAPIVersion(730)
	db, err := apple.OpenDatabase(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return db, subspace.FromBytes(prefix)
}

// corePops pops with the core, without bridges.
func corePops(pop func(context.Context, *fdbpq.Store, *fdbpq.Session, int) (fdbpq.Popped, error)) func(*testing.T, task) work {
	return func(t *testing.T, l task) work {
		db, store := openCore(t, l.Cluster, l.Prefix)
		return work{
			client: func() func() error {
				session := store.Session()
				return func() error {
					popped, err := pop(t.Context(), store, session, 1)
					if err == nil && len(popped.Items) == 0 {
						err = errEmpty
					}
					return err
				}
			},
			conflicts: func() int64 { return int64(db.Metrics().Conflicts) },
		}
	}
}

func openCore(t *testing.T, cluster string, prefix []byte) (*fdb.DB, *fdbpq.Store) {
	t.Helper()
	db, err := fdb.Open(cluster, fdb.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return db, store
}

// requests are clients that send a request over NATS and wait for the answer.
func requests(t *testing.T, l task, subject string, body func() []byte) work {
	connection := connections(t, l)
	return work{client: func() func() error {
		nc := connection()
		return func() error {
			m := &nats.Msg{Subject: subject}
			if body != nil {
				m.Data = body()
			}
			_, err := answerTo(nc, m)
			return err
		}
	}}
}

// connections returns what gives each client its connection to NATS.
func connections(t *testing.T, l task) func() *nats.Conn {
	t.Helper()
	var all []*nats.Conn
	for range l.Connections {
		nc, err := nats.Connect(l.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		all = append(all, nc)
	}
	clients := 0
	return func() *nats.Conn {
		clients++
		return all[clients%len(all)]
	}
}

// answerTo returns the answer to a request, or an error if it was not served.
func answerTo(nc *nats.Conn, m *nats.Msg) (*nats.Msg, error) {
	answer, err := nc.RequestMsg(m, 30*time.Second)
	if err == nil && answer.Header.Get("Nats-Service-Error-Code") != "" {
		err = errors.New(answer.Header.Get("Nats-Service-Error"))
	}
	return answer, err
}

// fillRecipe pushes items to the queue of the recipe.
func fillRecipe(t *testing.T, cluster string, prefix []byte, n int) {
	t.Helper()
	db, items := openRecipe(t, cluster, prefix)
	defer db.Close()
	for begin := 0; begin < n; begin += 1000 {
		_, err := db.Transact(func(tr apple.Transaction) (any, error) {
			for i := begin; i < min(n, begin+1000); i++ {
				random := make([]byte, 20)
				rand.Read(random)
				tr.Set(items.Pack(appletuple.Tuple{i % priorities, i / priorities, random}), payload())
			}
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// shape is how many processes pop, and with how many clients each.
type shape struct{ processes, clients int }

func (s shape) String() string { return fmt.Sprintf("%d × %d", s.processes, s.clients) }

var shapes = []shape{{1, 64}, {2, 32}, {4, 16}}

var (
	only   = flag.String("only", "", "measure what matches this pattern, such as 'pqd 4'")
	rounds = flag.Int("rounds", 1, "measure everything so many times, and tell the medians")
)

// Many processes pop one queue: by the recipe, by the core, and through bridges.
func TestContention(t *testing.T) {
	wanted := regexp.MustCompile(*only)
	cluster := fdbtest.New(t, 1)
	measured := make(map[string][]measure)
	rows := []struct {
		kind string
		pops func(*testing.T, *fdbtest.Cluster, string, shape) measure
	}{
		{recipeKind, popAlone},
		{pqdKind, popThroughPQD},
		{"recipe", popAlone},
		{"snapshot", popAlone},
		{"staging", popAlone},
		{"bare bridge, recipe", popThroughBareBridges},
		{"bare bridge, snapshot", popThroughBareBridges},
		{"bare bridge, staging", popThroughBareBridges},
	}
	name := func(kind string, s shape) string { return fmt.Sprint(kind, " ", s) }
	// The compared ways alternate.
	for range *rounds {
		for _, s := range shapes {
			for _, row := range rows {
				if name := name(row.kind, s); wanted.MatchString(name) {
					measured[name] = append(measured[name], row.pops(t, cluster, row.kind, s))
				}
			}
		}
	}
	rates := make(map[string]float64)
	t.Logf("| %-26s | %6s | %8s | %9s | %8s | %8s |", "", "", "pops/s", "conflicts", "p50", "p99")
	for _, row := range rows {
		for _, s := range shapes {
			all := measured[name(row.kind, s)]
			if len(all) == 0 {
				continue
			}
			slices.SortFunc(all, func(a, b measure) int { return cmp.Compare(a.Done, b.Done) })
			m := all[len(all)/2]
			rates[name(row.kind, s)] = float64(m.Done) / measureTime.Seconds()
			t.Logf("| %-26s | %s | %8.0f | %9.2f | %8s | %8s |", row.kind, s, float64(m.Done)/measureTime.Seconds(),
				float64(m.Conflicts)/float64(m.Done), m.P50.Round(10*time.Microsecond), m.P99.Round(10*time.Microsecond))
		}
	}
	for _, s := range shapes {
		for _, kind := range []string{recipeKind, "recipe"} {
			plain, bridged := rates[name(kind, s)], rates[name(pqdKind, s)]
			if plain > 0 && bridged > 0 {
				t.Logf("%s through pqd: %.1f times the %s", s, bridged/plain, kind)
			}
		}
	}
}

// popAlone measures clients that are programs of their own.
func popAlone(t *testing.T, cluster *fdbtest.Cluster, kind string, s shape) measure {
	prefix := fdbtest.Prefix()
	if kind == recipeKind {
		fillRecipe(t, cluster.File, prefix, 20_000)
	} else {
		fill(t, cluster.File, prefix, slices.Repeat([]string{"jobs"}, 20_000))
	}
	return sum(drive(t, repeat(task{
		Kind: kind, Clients: s.clients, Cluster: cluster.File, Prefix: prefix, Warm: warmTime, Time: measureTime,
	}, s.processes)...))
}

// popThroughPQD measures as many clients of NATS, which gives each request to
// any of the bridges.
func popThroughPQD(t *testing.T, cluster *fdbtest.Cluster, _ string, s shape) measure {
	server := testenv.NATS(t)
	name := string(fdbtest.Prefix())
	fill(t, cluster.File, tuple.AppendString(nil, name), slices.Repeat([]string{"jobs"}, 150_000))
	var daemons []*testenv.Process
	for range s.processes {
		daemons = append(daemons, testenv.Daemon(t, "NATS_URL="+server.URL(), "PQ_STORE=fdb:"+cluster.File+"?prefix="+name))
	}
	before := conflicts(t, daemons)
	m := sum(drive(t, popLoad(server, s)))
	m.Conflicts = conflicts(t, daemons) - before // those of the warm-up too
	for _, d := range daemons {
		d.Stop(t)
	}
	return m
}

// popLoad runs the clients of bridges. They share a connection, as clients of a cluster
// in one process do.
func popLoad(server *testenv.Server, s shape) task {
	return task{Kind: "pop", Clients: s.processes * s.clients, Connections: 1, URL: server.URL(), Warm: warmTime, Time: measureTime}
}

// popThroughBareBridges measures the core's ways to pop behind a minimal bridge: requests
// that arrive during a batch are the next batch.
func popThroughBareBridges(t *testing.T, cluster *fdbtest.Cluster, kind string, s shape) measure {
	server := testenv.NATS(t)
	prefix := fdbtest.Prefix()
	fill(t, cluster.File, prefix, slices.Repeat([]string{"jobs"}, 100_000))
	bridge := task{Kind: kind, Clients: 1, Cluster: cluster.File, Prefix: prefix, URL: server.URL(), Warm: warmTime, Time: measureTime + 3*time.Second}
	measures := drive(t, append(repeat(bridge, s.processes), popLoad(server, s))...)
	m := measures[s.processes]
	m.Conflicts = sum(measures[:s.processes]).Conflicts * int64(measureTime) / int64(bridge.Time)
	return m
}

// bareBridge answers pops with the items that pop returns.
func bareBridge(pop func(context.Context, *fdbpq.Store, *fdbpq.Session, int) (fdbpq.Popped, error)) func(*testing.T, task) work {
	return func(t *testing.T, l task) work {
		db, store := openCore(t, l.Cluster, l.Prefix)
		nc, err := nats.Connect(l.URL)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		pops := make(chan *nats.Msg, 1024)
		if _, err := nc.ChanQueueSubscribe("pq.jobs.pop.min", "pq", pops); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		session := store.Session()
		return work{
			client: func() func() error {
				return func() error {
					var batch []*nats.Msg
					select {
					case m := <-pops:
						batch = append(batch, m)
					case <-time.After(10 * time.Millisecond):
						return nil // the load may have ended
					}
					for len(pops) > 0 {
						batch = append(batch, <-pops)
					}
					popped, err := pop(t.Context(), store, session, len(batch))
					if err == nil && len(popped.Items) < len(batch) {
						err = errEmpty
					}
					for i, m := range batch {
						if err == nil {
							err = nc.Publish(m.Reply, popped.Items[i].Payload)
						}
					}
					return err
				}
			},
			conflicts: func() int64 { return int64(db.Metrics().Conflicts) },
		}
	}
}

func repeat(l task, n int) (loads []task) {
	for range n {
		loads = append(loads, l)
	}
	return loads
}

// conflicts is the number of transactions that daemons had to repeat.
func conflicts(t *testing.T, daemons []*testenv.Process) (n int64) {
	t.Helper()
	for _, d := range daemons {
		n += int64(daemonMetric(t, d, "pq_store_conflicts_total"))
	}
	return n
}

// daemonMetric reads a number of a daemon's page of metrics.
func daemonMetric(t *testing.T, d *testenv.Process, name string) float64 {
	t.Helper()
	_, page := pqd.Get(t, d.HTTP+"/metrics")
	return pqd.Metric(t, page, name)
}
