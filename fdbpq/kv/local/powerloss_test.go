package local

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// After a power loss that leaves any part of what was not synced, everything
// that was acknowledged is there, also when it stands in a log whose file is in
// use for the second time.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	const (
		writers = 4
		keys    = 16      // of each writer
		largest = 90_000  // bytes
		further = 8 << 20 // bytes in a log that is used again, before the power is lost
	)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	memory := vfs.NewCrashableMem()
	disk := &reuseFS{FS: memory}
	db := mustOpen(t, Options{FS: disk})

	var acknowledged [writers][keys]uint64 // the version of each key
	var acks sync.RWMutex                  // held for reading while one is noted
	var size, reusedAt atomic.Int64        // bytes written, altogether and up to the first use of an old log
	goOn := func() bool {
		if disk.reused.Load() > 0 {
			reusedAt.CompareAndSwap(0, size.Load())
		}
		return reusedAt.Load() == 0 || size.Load() < reusedAt.Load()+further
	}
	enough := make(chan struct{})
	stop := sync.OnceFunc(func() { close(enough) })
	var ended sync.WaitGroup
	for w := range writers {
		rng := rand.New(rand.NewPCG(seed, uint64(1+w)))
		ended.Go(func() {
			defer stop()
			for version := uint64(1); goOn(); version++ {
				k := rng.IntN(keys)
				value := append(binary.BigEndian.AppendUint64(nil, version), content(version, rng.IntN(largest))...)
				err := db.Update(t.Context(), func(tx kv.Tx) error {
					tx.Set(fmt.Appendf(nil, "%d %d", w, k), value)
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
				acks.RLock()
				acknowledged[w][k] = version
				acks.RUnlock()
				size.Add(int64(len(value)))
			}
		})
	}
	<-enough // the others are still at it
	acks.Lock()
	promised := acknowledged
	after := memory.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
	acks.Unlock()
	ended.Wait()
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	restarted := mustOpen(t, Options{FS: after})
	for w := range writers {
		for k := range keys {
			var version uint64
			value := []byte(mustGet(t, restarted, fmt.Sprint(w, " ", k)))
			if len(value) >= 8 {
				version, value = binary.BigEndian.Uint64(value), value[8:]
			}
			if version < promised[w][k] {
				t.Errorf("key %d of writer %d has version %d, %d was acknowledged", k, w, version, promised[w][k])
			}
			if !bytes.Equal(value, content(version, len(value))) {
				t.Errorf("key %d of writer %d is damaged", k, w)
			}
		}
	}
	if err := restarted.Close(); err != nil {
		t.Error(err)
	}
}

// content is n bytes that tell versions apart.
func content(version uint64, n int) []byte {
	begin := int(version % 251)
	return allContent[begin : begin+n]
}

var allContent = func() []byte {
	b := make([]byte, 100_000)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}()

// reuseFS counts how often a file is used again.
type reuseFS struct {
	vfs.FS
	reused atomic.Int64
}

func (fs *reuseFS) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	fs.reused.Add(1)
	return fs.FS.ReuseForWrite(from, to, category)
}

// TestLogOfADeadProcess lets a process die after the operating system took what
// it wrote, but before the disk did. The next process finds it in the log. What
// it answers must hold even if the power fails then.
func TestLogOfADeadProcess(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	dead := mustOpen(t, Options{FS: &forgetfulFS{diskFS{FS: disk}}})
	mustUpdate(t, dead, set("a", "1"))
	if db := mustOpen(t, Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})}); mustGet(t, db, "a") != "" {
		t.Fatal("the row is on the disk, which makes the test pointless")
	} else if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	next := openMem(t, Options{FS: disk})
	if mustGet(t, next, "a") != "1" {
		t.Fatal("the row is not in the log, which makes the test pointless")
	}
	after := openMem(t, Options{FS: disk.CrashClone(vfs.CrashCloneCfg{})})
	if mustGet(t, after, "a") != "1" {
		t.Error("what a process answered is gone after a power loss")
	}
}
