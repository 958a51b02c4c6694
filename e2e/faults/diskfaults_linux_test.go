package faults_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/disk"
	"github.com/pqbridge/pqbridge/testenv"
)

// badDisk is a campaign on a failing disk.
type badDisk struct {
	*pqd.Campaign
	disk  *disk.Disk
	alive *nats.Conn
}

// trouble is a fault of a disk. It ends when the disk is repaired.
type trouble struct {
	name  string
	begin func(*badDisk) disk.Fault
	hangs bool // so that nothing can be started on it
}

// failing has steps of some kinds fail with an error: one of them, or all.
func failing(errno syscall.Errno, once bool, kinds ...disk.Kind) func(*badDisk) disk.Fault {
	return func(b *badDisk) disk.Fault {
		var steps atomic.Int64
		first := b.Random.Int64N(5)
		return func(kind disk.Kind, _ string) syscall.Errno {
			if !slices.Contains(kinds, kind) {
				return 0
			}
			if at := steps.Add(1) - 1; at < first || once && at > first {
				return 0
			}
			return errno
		}
	}
}

var changes = []disk.Kind{disk.Create, disk.MakeDir, disk.Remove, disk.Rename, disk.Write, disk.Truncate}

var diskTroubles = []trouble{
	{name: "a write fails", begin: failing(syscall.EIO, true, disk.Write)},
	{name: "writes fail", begin: failing(syscall.EIO, false, disk.Write)},
	{name: "a sync fails", begin: failing(syscall.EIO, true, disk.Sync)},
	{name: "syncs fail", begin: failing(syscall.EIO, false, disk.Sync, disk.SyncDir)},
	{name: "names fail", begin: failing(syscall.EIO, false, disk.Create, disk.Rename, disk.Remove)},
	{name: "reads fail", begin: failing(syscall.EIO, false, disk.Read)},
	{name: "read-only", begin: failing(syscall.EROFS, false, changes...)},
	{name: "full", begin: func(b *badDisk) disk.Fault {
		b.disk.Resize(b.disk.Used() + b.Random.Int64N(20<<10))
		return nil
	}},
	{name: "hangs", hangs: true, begin: func(b *badDisk) disk.Fault {
		mended := make(chan struct{})
		time.AfterFunc(time.Duration(b.Random.IntN(6000))*time.Millisecond, func() { close(mended) })
		return func(kind disk.Kind, _ string) syscall.Errno {
			if kind != disk.Read {
				<-mended
			}
			return 0
		}
	}},
}

// fail causes a fault of the disk for a while, starts pqd again if it has ended, and
// returns the outcome.
func (b *badDisk) fail(t testing.TB) string {
	what := diskTroubles[b.Random.IntN(len(diskTroubles))]
	before := b.disk.Failed()
	b.disk.Fail(what.begin(b))
	met := b.await(1500*time.Millisecond, func() bool { return what.hangs || b.disk.Failed() > before })
	last, again := time.Duration(b.Random.IntN(1500))*time.Millisecond, b.Random.IntN(2) == 0
	ended, result := false, "pqd goes on"
	if met {
		ended = b.await(last, func() bool { return false })
	} else { // a start reads and makes files
		b.Process.Kill(t)
		ended, again = true, true
	}
	switch {
	case !ended:
	case !again || what.hangs:
		result = "pqd ends"
	default:
		b.Process.Begin(t)
		result = "pqd starts on it"
		if b.await(3*time.Second, func() bool { return false }) {
			result = "pqd does not start on it"
		}
	}
	b.disk.Fail(nil)
	b.disk.Resize(1 << 40)
	for late := testenv.BeginWait(); !b.works(); {
		select {
		case <-b.Process.Exited():
			// Pebble panics if a failing start ends during its background work.
			if code := b.Process.AwaitEnd(t); code != 1 && !strings.Contains(b.Process.Log(), "pebble/v2.(*fileCacheHandle)") {
				t.Errorf("%s: pqd ended with %d, expected 1", what.name, code)
			}
			if !ended {
				ended, result = true, "pqd ends"
			}
			b.disk.Lose(b.Random)
			b.Process.Start(t)
		case <-time.After(20 * time.Millisecond):
		}
		if late.Over() {
			t.Fatalf("%s: the disk was mended %s ago, and pqd does not work", what.name, testenv.Patience())
		}
	}
	if !what.hangs && b.disk.Failed() == before {
		return what.name + ": never met"
	}
	return what.name + ": " + result
}

// await waits until pqd has ended or the condition is true, and reports whether that came
// within the limit.
func (b *badDisk) await(limit time.Duration, done func() bool) bool {
	for over := time.After(limit); !done(); {
		select {
		case <-b.Process.Exited():
			return true
		case <-over:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// works reports whether pqd acknowledges a push on the repaired disk.
func (b *badDisk) works() bool {
	reply, err := b.alive.Request("pq.alive.push.1", nil, time.Second)
	return err == nil && testenv.IsAck(reply)
}

// Whatever fails on the disk, pqd continues, or ends with 1 and can be started again, and
// every guarantee holds. A disk whose writes or syncs failed may have lost any part of
// the unsynced data.
func TestDiskFaults(t *testing.T) {
	t.Parallel()
	if *pqd.Ops == 0 {
		t.Skip("no -pq.ops: it needs a file system of its own")
	}
	random, faults, done := pqd.Seeded(t), make(map[string]int), 0
	for round := 0; done < *pqd.Ops && !t.Failed(); round++ {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			began := time.Now()
			d := disk.Mount(t, func() time.Duration { return time.Since(began) })
			b := &badDisk{disk: d, Campaign: &pqd.Campaign{Random: random, Faults: faults}}
			store := filepath.Join(d.Dir, "store")
			b.Process = testenv.Daemon(t, "PQ_STORE=local:"+store, smallSpare)
			b.URL, b.Campaign.Fault = b.Process.URL, b.fail
			b.alive = b.Process.Connect(t, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
			done += b.Long(t, "jobs", 8, 250, b.Moments(10, 8*250)...)
			b.alive.Close()
			b.Process.Stop(t)
			testenv.CheckDir(t, store)
		})
	}
	for _, what := range slices.Sorted(maps.Keys(faults)) {
		t.Logf("%4d %s", faults[what], what)
	}
	t.Logf("%d operations", done)
}
