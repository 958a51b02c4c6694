package cluster

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/checkpoint"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// The log forgets what members say is synced. An entry that arrived while the disk synced is
// not, and nothing is behind a sync that failed.
func TestSyncedEntries(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]uint64{"arrived meanwhile": 5, "failed": 4} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var armed atomic.Bool
				m := &member{slog: slog.New(slog.DiscardHandler), peers: peers.New("a", Silence)}
				disk := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
					if op.Kind != errorfs.OpFileSync && op.Kind != errorfs.OpFileSyncData || !armed.Load() {
						return nil
					}
					m.self.moved(chain.Head{Entry: 6}, time.Time{}, false)
					return nil
				}))
				replica, err := local.OpenReplica("/copy", local.Options{FS: disk, Log: m.slog})
				if err != nil {
					t.Fatal(err)
				}
				m.replica.Store(replica)
				if err := replica.Apply(nil, chain.Head{Entry: 5}.Encode()); err != nil {
					t.Fatal(err)
				}
				m.self.opened(chain.Head{Entry: 4})
				m.self.moved(chain.Head{Entry: 5}, time.Time{}, false)
				if name == "failed" {
					if err := replica.Close(); err != nil {
						t.Fatal(err)
					}
				}
				armed.Store(true)
				ctx, cancel := context.WithTimeout(t.Context(), syncEvery+time.Millisecond)
				defer cancel()
				syncer{member: m, archive: &checkpoint.Archive{}, furthest: &furthest{member: m}}.run(ctx)
				armed.Store(false)
				if got := m.self.now().heartbeat(time.Now()).Synced; got != want {
					t.Errorf("entries up to %d count as synced, expected %d", got, want)
				}
				if err := replica.Close(); err != nil && name != "failed" {
					t.Error(err)
				}
			})
		})
	}
}
