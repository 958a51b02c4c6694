package cluster_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/testkit/clustertest"
	"github.com/pqbridge/pqbridge/internal/testkit/kvtest"
)

// single is the store of a cluster with one member.
type single struct {
	*cluster.Term
	member *cluster.DB
}

func (s single) Close() error { return s.member.Close() }

func TestConformance(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, kvtest.Harness{Open: func(t testing.TB) kv.DB {
		log := clustertest.NewLog()
		log.Entry = 4000 // so that transactions are spread over several records
		member := openMember(t, vfs.NewMem(), log, clustertest.NewNetwork(), cluster.Options{Name: "a", Members: []string{"a"}})
		term, err := member.Term(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return single{term, member}
	}})
}

func openMember(t testing.TB, disk vfs.FS, log cluster.Log, members cluster.Members, o cluster.Options) *cluster.DB {
	t.Helper()
	o.Replica = local.Options{FS: disk, Now: func() time.Time { return time.Time{} }, Log: slog.New(slog.DiscardHandler)}
	member, err := cluster.Open("/copy", log, members, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := member.Abandon(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Errorf("closing member %s: %v", o.Name, err)
		}
	})
	return member
}
