package local

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/kvtest"
)

func TestConformance(t *testing.T) {
	for _, opts := range []Options{{}, {NoSync: true}} {
		name := "Sync"
		if opts.NoSync {
			name = "NoSync"
		}
		t.Run(name, func(t *testing.T) {
			kvtest.Run(t, kvtest.Harness{Open: func(t testing.TB) kv.DB {
				opts := opts
				opts.FS = vfs.NewMem()
				return mustOpen(t, opts)
			}})
		})
	}
}

func TestConformanceAfterPowerLoss(t *testing.T) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 1))
		kvtest.RunCrash(t, kvtest.CrashHarness{
			Seed: seed,
			Open: func(t testing.TB) kvtest.Machine { return machine(t, vfs.NewCrashableMem(), rng) },
		})
	}
}

// machine starts a machine with this disk.
func machine(t testing.TB, disk *vfs.MemFS, rng *rand.Rand) kvtest.Machine {
	var cut atomic.Bool
	db := mustOpen(t, Options{FS: lazyDisk{disk}})
	return kvtest.Machine{DB: db, PowerLoss: func() kvtest.Machine {
		if cut.Swap(true) {
			t.Error("the power fails only once")
		}
		return machine(t, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}), rng)
	}}
}

func mustOpen(t testing.TB, opts Options) *DB {
	t.Helper()
	db, err := Open("db", opts)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// lazyDisk takes its time to sync, so that much happens meanwhile.
type lazyDisk struct{ *vfs.MemFS }

func (d lazyDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.MemFS.Create(name, category)
	return lazyFile{f}, err
}

func (d lazyDisk) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.MemFS.ReuseForWrite(oldname, newname, category)
	return lazyFile{f}, err
}

type lazyFile struct{ vfs.File }

func (f lazyFile) Sync() error {
	for range 50 {
		runtime.Gosched()
	}
	return f.File.Sync()
}

func (f lazyFile) SyncData() error {
	for range 50 {
		runtime.Gosched()
	}
	return f.File.SyncData()
}
