//go:build fdb

package stores_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/internal/tuple"
	"github.com/pqbridge/pqbridge/testenv"
)

var (
	flagBridgesServed  = flag.Int("pq.served", 300, "items that TestFairOverBridges serves in each of its ways")
	flagBridgesPoppers = flag.Int("pq.poppers", 8, "clients of all bridges together in TestFairOverBridges")
)

// Four bridges on one cluster serve clients that pop a queue at the same time, and keys that
// have items all the time get their shares in the order of the commits. First each bridge has
// one client and a NATS server of its own, so that each commit delivers one item. Then all
// have one server, which gives each request to any of them, and a commit answers several
// requests, as one batch.
//
// The commits' order comes from the cluster: the version from which on the row of an item is
// missing. Two pops of the queue have no version in common, because each depends on the other.
func TestFairOverBridges(t *testing.T) {
	nightly.Only(t, "it is about contention; TestSeveralBridges has two bridges on one store")
	t.Parallel()
	const bridges = 4
	cluster := fdbtest.Shared(t)
	for _, one := range []bool{false, true} {
		t.Run(map[bool]string{false: "servers", true: "server"}[one], func(t *testing.T) {
			seed := rand.Uint64()
			rng := rand.New(rand.NewPCG(seed, 0))
			name := string(fdbtest.Prefix())
			env := []string{fmt.Sprintf("PQ_STORE=fdb:%s?prefix=%s", cluster.File, name)}
			var ncs []*nats.Conn
			if one {
				server := testenv.NATS(t)
				env = append(env, "NATS_URL="+server.URL())
				for range *flagBridgesPoppers {
					ncs = append(ncs, server.Connect(t))
				}
			}
			for range bridges {
				d := testenv.Daemon(t, env...)
				defer d.Stop(t)
				if !one {
					ncs = append(ncs, d.Connect(t))
				}
			}
			weights := make(map[string]int64)
			total := int64(0)
			for i := range 12 {
				weight := []int64{1, 1, 2, 3, 7}[rng.IntN(5)]
				weights[fmt.Sprint("key ", i)] = weight
				total += weight
			}
			l := openLedger(t, cluster.File, tuple.AppendString(nil, name))
			l.fill(ncs, weights, func(weight int64) int { return int(2*int64(*flagBridgesServed)*weight/total) + 100 })
			served, batch := l.pops(ncs, *flagBridgesServed)
			worst, off := testenv.Unfairness(served, weights, batch), testenv.WorstShare(served, weights)
			t.Logf("seed %d: %d bridges served %d items in up to %d a commit, to keys of the weights %v; the worst difference of two keys is %.2f times 2/w1 + 2/w2, shares are off by %.1f %%",
				seed, bridges, len(served), batch, slices.Sorted(maps.Values(weights)), worst, 100*off)
			if worst > 1 || off > .05 || !one && batch > 1 {
				t.Errorf("the worst difference is %.2f times 2/w1 + 2/w2, expected 1 at most; a share is off by %.1f %%, expected 5 at most; %d items a commit", worst, 100*off, batch)
			}
		})
	}
}

// ledger finds the commits that took items from a queue.
type ledger struct {
	*testing.T
	db    apple.Database
	store []byte            // prefix of its rows
	rows  map[string][]byte // of the items, by id
}

func openLedger(t *testing.T, cluster string, store []byte) *ledger {
	apple.MustAPIVersion(730)
	db, err := apple.OpenDatabase(cluster)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return &ledger{T: t, db: db, store: store, rows: make(map[string][]byte)}
}

// fill pushes items for each key.
func (l *ledger) fill(ncs []*nats.Conn, weights map[string]int64, items func(weight int64) int) {
	l.Helper()
	if _, err := pqd.UntilServed(ncs[0], &nats.Msg{Subject: "pq.jobs.admin.config", Data: []byte(`{"fair":"priority"}`)}); err != nil {
		l.Fatal(err)
	}
	var pushers sync.WaitGroup
	var mu sync.Mutex
	for key, weight := range weights {
		pushers.Go(func() {
			for n := range items(weight) {
				m := &nats.Msg{Subject: "pq.jobs.push", Data: []byte(key), Header: nats.Header{"PQ-Key": {key}, "PQ-Weight": {fmt.Sprint(weight)}}}
				answer, err := pqd.UntilServed(ncs[n%len(ncs)], m)
				var pushed struct{ ID string }
				if err == nil {
					err = json.Unmarshal(answer.Data, &pushed)
				}
				if err == nil && pushed.ID == "" {
					err = fmt.Errorf("%s", answer.Data)
				}
				if err != nil {
					l.Errorf("push: %v", err)
					return
				}
				mu.Lock()
				l.rows[pushed.ID] = nil
				mu.Unlock()
			}
		})
	}
	pushers.Wait()
	l.findRows()
}

// findRows finds the row that each ready item has, which ends with the place in its id.
func (l *ledger) findRows() {
	l.Helper()
	begin, end := tuple.Range(tuple.AppendString(tuple.AppendString(bytes.Clone(l.store), "ik"), "jobs"))
	found, err := l.db.ReadTransact(func(tr apple.ReadTransaction) (any, error) {
		return tr.GetRange(apple.KeyRange{Begin: apple.Key(begin), End: apple.Key(end)}, apple.RangeOptions{Limit: 1}).GetSliceWithError()
	})
	if err != nil {
		l.Fatal(err)
	}
	first := found.([]apple.KeyValue)[0].Key
	var prefix []byte
	for id := range l.rows {
		if l.rows[id], err = base64.RawURLEncoding.DecodeString(id); err != nil {
			l.Fatal(err)
		}
		if bytes.HasSuffix(first, l.rows[id]) {
			prefix = first[:len(first)-len(l.rows[id])]
		}
	}
	for id, place := range l.rows {
		l.rows[id] = slices.Concat(prefix, place)
	}
}

// delivery is an item that a pop got, and the version at which that was committed.
type delivery struct {
	key    string
	commit int64
}

// pops has all clients pop until n items are out. It returns their keys in the order of the
// commits, and the most items that one commit has delivered.
func (l *ledger) pops(ncs []*nats.Conn, n int) (served []string, batch int) {
	l.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	var mu sync.Mutex
	var all []delivery
	var poppers sync.WaitGroup
	for _, nc := range ncs {
		poppers.Go(func() {
			for left.Add(-1) >= 0 {
				d, err := l.pop(nc)
				if err != nil {
					l.Errorf("pop: %v", err)
					return
				}
				mu.Lock()
				all = append(all, d)
				mu.Unlock()
			}
		})
	}
	poppers.Wait()
	slices.SortFunc(all, func(a, b delivery) int { return cmp.Compare(a.commit, b.commit) })
	together := 0
	for i, d := range all {
		if together++; i > 0 && d.commit != all[i-1].commit {
			together = 1
		}
		batch = max(batch, together)
		served = append(served, d.key)
	}
	return served, batch
}

// pop pops an item, and finds its commit between the versions before and after.
func (l *ledger) pop(nc *nats.Conn) (delivery, error) {
	before, err := l.version()
	if err != nil {
		return delivery{}, err
	}
	item, err := pqd.UntilServed(nc, &nats.Msg{Subject: "pq.jobs.pop.min"})
	if err != nil {
		return delivery{}, err
	}
	row := l.rows[item.Header.Get("PQ-Id")]
	if row == nil {
		return delivery{}, fmt.Errorf("no item that was pushed: %v", item.Header)
	}
	after, err := l.version()
	if err != nil {
		return delivery{}, err
	}
	if there, err := l.hasAt(row, after); there || err != nil {
		return delivery{}, cmp.Or(err, errors.New("the item is still there"))
	}
	for after-before > 1 {
		middle := before + (after-before)/2
		there, err := l.hasAt(row, middle)
		if err != nil {
			return delivery{}, err
		}
		if there {
			before = middle
		} else {
			after = middle
		}
	}
	return delivery{string(item.Data), after}, nil
}

// version is the present version of the cluster.
func (l *ledger) version() (int64, error) {
	tr, err := l.db.CreateTransaction()
	if err != nil {
		return 0, err
	}
	return tr.GetReadVersion().Get()
}

// hasAt reports whether a row was there at a version.
func (l *ledger) hasAt(row []byte, version int64) (bool, error) {
	tr, err := l.db.CreateTransaction()
	if err != nil {
		return false, err
	}
	tr.SetReadVersion(version)
	value, err := tr.Snapshot().Get(apple.Key(row)).Get()
	return value != nil, err
}
