package fdbpq_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/testkit/clustertest"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
)

// engines are those of this build, the embedded one first.
var engines = []engine{{"local", placeLocal}, {"cluster", placeCluster}}

// engine is one kind of store. The function that place returns opens one and the same store, which is empty at first.
type engine struct {
	name  string
	place func(testing.TB) func() (kv.DB, error)
}

// tested are the engines that a test runs on: the one that a variable names, or else all but the replicated one, which
// takes minutes of processor time under the race detector, and has tests of its own.
func tested(t *testing.T) (chosen []engine) {
	name := os.Getenv("PQ_TEST_ENGINE")
	for _, e := range engines {
		if e.name == name || name == "" && e.name != "cluster" {
			chosen = append(chosen, e)
		}
	}
	if len(chosen) == 0 {
		t.Fatalf("PQ_TEST_ENGINE=%s: this build has no such engine", name)
	}
	return chosen
}

// placeLocal does without syncs, and its transactions do not grow old on a busy
// machine: both are the engine's business, and tested there.
func placeLocal(t testing.TB) func() (kv.DB, error) {
	dir := filepath.Join(t.TempDir(), "data")
	return func() (kv.DB, error) { return local.Open(dir, local.Options{NoSync: true, Now: stopped}) }
}

// placeCluster is a cluster with one member, whose log is in memory.
func placeCluster(testing.TB) func() (kv.DB, error) {
	log, disk := clustertest.NewLog(), vfs.NewMem()
	return func() (kv.DB, error) {
		member, err := cluster.Open("/copy", log, clustertest.NewNetwork(), cluster.Options{
			Name: "a", Members: []string{"a"},
			Replica: local.Options{FS: disk, Now: stopped, Log: slog.New(slog.DiscardHandler)},
		})
		if err != nil {
			return nil, err
		}
		term, err := member.Term(context.Background())
		if err != nil {
			return nil, errors.Join(err, member.Close())
		}
		return clusterOfOne{term, member}, nil
	}
}

// clusterOfOne is a store in a cluster with one member.
type clusterOfOne struct {
	*cluster.Term
	member *cluster.DB
}

func (c clusterOfOne) Close() error { return c.member.Close() }

func stopped() time.Time {
	return time.Time{}
}

// fewer is how much of the work of a random test is done: less in the gate, and on engines whose commits cross a network.
func fewer(t testing.TB, n int) int {
	if strings.HasSuffix(t.Name(), "/local") {
		return nightly.Fewer(n)
	}
	return n / 10
}

// eachEngine runs a test on every engine. A test that opens the store again closes it
// before.
func eachEngine(t *testing.T, test func(t *testing.T, open func() kv.DB)) {
	for _, engine := range tested(t) {
		t.Run(engine.name, func(t *testing.T) {
			place := engine.place(t)
			test(t, func() kv.DB {
				db, err := place()
				if err != nil {
					t.Fatal(err)
				}
				return db
			})
		})
	}
}
