package local

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/kvtest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		noSync bool
		limits gapLimits
	}{
		{name: "Sync", limits: defaultGapLimits},
		{name: "NoSyncAndGapsEverywhere", noSync: true, limits: gapLimits{count: 20, bytes: 1 << 20, steps: 1, lookAfter: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			kvtest.Run(t, kvtest.Harness{Open: func(t testing.TB) kv.DB {
				db := mustOpen(t, Options{FS: vfs.NewMem(), NoSync: c.noSync})
				db.gaps.limits = c.limits
				return db
			}})
		})
	}
}

func TestConformanceAfterPowerLoss(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	kvtest.RunCrash(t, kvtest.CrashHarness{
		Seed: seed,
		Open: func(t testing.TB) kvtest.Machine { return machine(t, vfs.NewCrashableMem(), rng) },
	})
}

// machine starts a machine with this disk.
func machine(t testing.TB, disk *vfs.MemFS, rng *rand.Rand) kvtest.Machine {
	// Much happens while the disk takes its time.
	fs := &diskFS{FS: disk, onSync: func() error {
		for range 20 {
			runtime.Gosched()
		}
		return nil
	}}
	db := mustOpen(t, Options{FS: fs})
	return kvtest.Machine{DB: db, PowerLoss: func() kvtest.Machine {
		return machine(t, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}), rng)
	}}
}
