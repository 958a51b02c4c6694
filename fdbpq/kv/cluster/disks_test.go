package cluster_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// The store takes no new items while the disk of the active member is nearly full, or the disks of so
// many others that no majority has room.
func TestFullDisks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		defer w.end()
		full := make([]atomic.Bool, len(w.nodes))
		disks := make(map[*node]*atomic.Bool)
		for i, n := range w.nodes {
			disks[n] = &full[i]
			n.options.DiskFull = func() error {
				if full[i].Load() {
					return errors.New("it is full")
				}
				return nil
			}
			n.start()
		}
		first, _ := w.active()
		second, third := w.others(first)[0], w.others(first)[1]
		expect := func(what string, says ...string) {
			t.Helper()
			<-time.After(3 * time.Second)
			err := first.up().DiskFull()
			if (err != nil) != (len(says) > 0) {
				t.Errorf("%s: %v", what, err)
			}
			for _, text := range says {
				if err != nil && !strings.Contains(err.Error(), text) {
					t.Errorf("%s: %v, expected %q", what, err, text)
				}
			}
		}
		expect("all have room")
		disks[second].Store(true)
		expect("one other disk is full")
		disks[third].Store(true)
		expect("two other disks are full", "no majority", second.name, third.name)
		disks[second].Store(false)
		expect("one has room again")
		second.kill(rand.New(rand.NewPCG(1, 1)))
		<-time.After(15 * time.Second) // until it counts as dead
		expect("one disk is full, and one member is away", "no majority", third.name)
		disks[third].Store(false)
		expect("one member is away")
		disks[first].Store(true)
		expect("the own disk is full", "it is full")
		if err := third.up().DiskFull(); err == nil {
			t.Error("a member with room takes items beside a full one and one that is away")
		}
	})
}

// A member whose disk is nearly full frees the space of what is cleared, although little is written.
func TestFullDiskIsReclaimed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		defer w.end()
		var full atomic.Bool
		var tables atomic.Int64
		n := w.nodes[0]
		n.options.DiskFull = func() error {
			if full.Load() {
				return errors.New("it is full")
			}
			return nil
		}
		n.errs = errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
				tables.Add(1)
			}
			return nil
		})
		n.start()
		_, term := w.active()
		write := func() {
			t.Helper()
			if err := term.Update(t.Context(), func(tx kv.Tx) error {
				tx.Set([]byte("row"), []byte("value"))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		write()
		<-time.After(10 * time.Second)
		if made := tables.Load(); made != 0 {
			t.Errorf("%d tables with room on the disk", made)
		}
		full.Store(true)
		write()
		<-time.After(10 * time.Second)
		made := tables.Load()
		if made == 0 {
			t.Error("nothing was flushed")
		}
		<-time.After(time.Minute)
		if more := tables.Load() - made; more > 0 {
			t.Errorf("%d tables of nothing new", more)
		}
	})
}

// A member whose disk refuses to make tables takes nothing more from the log, and goes on when it
// has room again: with the record that it could not commit, which is the last part of a
// transaction.
func TestTablesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		defer w.end()
		w.log.Entry = 300 << 10
		full := make(map[*node]*atomic.Bool)
		for _, n := range w.nodes {
			is := new(atomic.Bool)
			full[n] = is
			n.errs = errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") && is.Load() {
					return syscall.ENOSPC
				}
				return nil
			})
			n.start()
		}
		first, term := w.active()
		second := w.others(first)[0]
		full[second].Store(true)
		refuses := func() bool {
			status := second.up().Status()
			if status.Role == cluster.Stopped {
				t.Fatalf("the member stopped: %s", status.Reason)
			}
			return strings.Contains(status.Reason, "tables cannot be written")
		}
		for n := 0; !refuses(); n++ {
			if n > 100 {
				t.Fatalf("the member has taken %d transactions on a full disk", n)
			}
			err := term.Update(context.Background(), func(tx kv.Tx) error {
				for part := range 8 {
					tx.Set([]byte{byte(n), byte(part)}, make([]byte, kv.MaxValueSize))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if !refuses() && n > 30 {
				<-time.After(time.Second)
			}
		}
		full[second].Store(false)
		w.await("the member to go on", func() bool {
			return !refuses() && second.up().Status().Reason == ""
		})
		w.allCaughtUp()
		if second.content() != first.content() {
			t.Error("the copies differ")
		}
	})
}
