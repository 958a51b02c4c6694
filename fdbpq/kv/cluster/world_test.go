package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/testkit/clustertest"
)

// world is a cluster in one process: members, their disks, the log and the network.
type world struct {
	testing.TB
	log     *clustertest.Log
	network *clustertest.Network
	names   []string
	nodes   []*node
	losses  losses
}

// node is a member and the machine that it runs on.
type node struct {
	w       *world
	name    string
	faults  *faults
	options cluster.Options
	errs    errorfs.Injector // of the disk; nil: none

	mu     sync.Mutex
	disk   *vfs.MemFS
	member *cluster.DB // nil while it is down
}

func newWorld(t testing.TB, members int) *world {
	w := &world{TB: t, log: clustertest.NewLog(), network: clustertest.NewNetwork(), losses: losses{kills: make(map[string][]time.Time)}}
	for i := range members {
		w.names = append(w.names, string(rune('a'+i)))
	}
	for _, name := range w.names {
		n := &node{w: w, name: name, faults: &faults{}, disk: newDisk()}
		n.options = cluster.Options{Name: name, Members: w.names}
		w.nodes = append(w.nodes, n)
	}
	return w
}

// start starts a member on its disk.
func (n *node) start() {
	n.w.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults.set(func(f *faults) { f.off = false })
	o := n.options
	var disk vfs.FS = n.disk
	if n.errs != nil {
		disk = errorfs.Wrap(disk, n.errs)
	}
	o.Replica = local.Options{FS: disk, Now: func() time.Time { return time.Time{} }, Log: slog.New(slog.NewTextHandler(n.w.Output(), nil))}
	member, err := cluster.Open("/copy", faultyLog{n.w.log, n.faults}, faultyMembers{n.w.network, n.faults}, o)
	if err != nil {
		n.w.Fatalf("member %s: %v", n.name, err)
	}
	n.member = member
}

// up returns the member unless it is down.
func (n *node) up() *cluster.DB {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.member
}

// kill ends a member as a power failure does: of what was not synced the disk keeps any
// part.
func (n *node) kill(rng *rand.Rand) {
	n.w.Helper()
	n.mu.Lock()
	member := n.member
	n.member = nil
	n.faults.set(func(f *faults) { f.off = true }) // the process runs a little longer: nobody may hear of what the clone lacks
	disk := n.disk
	n.disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
	n.mu.Unlock()
	if err := member.Abandon(); err != nil && !errors.Is(err, kv.ErrClosed) {
		n.w.Errorf("member %s: %v", n.name, err)
	}
	n.w.losses.kills[n.name] = append(n.w.losses.kills[n.name], time.Now())
}

// stop closes a member.
func (n *node) stop() {
	n.w.Helper()
	n.mu.Lock()
	member := n.member
	n.member = nil
	n.mu.Unlock()
	if member == nil {
		return
	}
	if err := member.Close(); err != nil {
		n.w.Errorf("member %s: %v", n.name, err)
	}
}

// await waits until a condition holds; in a test with virtual time the limit is not a
// matter of the machine's speed.
func (w *world) await(what string, holds func() bool) {
	w.Helper()
	for began := time.Now(); !holds(); {
		if time.Since(began) > 5*time.Minute {
			for _, n := range w.nodes {
				if member := n.up(); member != nil {
					w.Logf("member %s: %+v", n.name, member.Status())
				}
			}
			w.Fatalf("timed out waiting for %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// active waits for a term, of any member or of one of some.
func (w *world) active(nodes ...*node) (*node, *cluster.Term) {
	w.Helper()
	if len(nodes) == 0 {
		nodes = w.nodes
	}
	var at *node
	w.await("an active member", func() bool {
		for _, n := range nodes {
			if member := n.up(); member != nil && member.Status().Role == cluster.Active {
				at = n
				return true
			}
		}
		return false
	})
	term := at.up().Current()
	if term == nil {
		return w.active(nodes...) // it stepped down just now
	}
	return at, term
}

// caughtUp waits until a member has all of the log.
func (w *world) caughtUp(n *node) {
	w.Helper()
	w.await("member "+n.name+" to catch up", func() bool {
		state, err := w.log.State(context.Background())
		return err == nil && n.up().Status().Entry == state.Last
	})
}

func (w *world) allCaughtUp() {
	w.Helper()
	for _, n := range w.nodes {
		w.caughtUp(n)
	}
}

// settle ends all faults, starts what is down, waits until all members have all of the
// log, and compares their copies.
func (w *world) settle() {
	w.Helper()
	for _, n := range w.nodes {
		n.faults.set(func(f *faults) { f.chance, f.deaf, f.blind = 0, false, false })
		if n.up() == nil {
			n.start()
		}
	}
	w.await("a write", func() bool {
		_, term := w.active()
		return term.Update(context.Background(), set("the end", "yes")) == nil
	})
	for _, n := range w.nodes {
		w.caughtUp(n)
		if got, want := n.content(), w.nodes[0].content(); got != want {
			w.Errorf("member %s has\n%s\nmember %s has\n%s", n.name, got, w.nodes[0].name, want)
		}
	}
}

// end stops all members.
func (w *world) end() {
	for _, n := range w.nodes {
		n.stop()
		n.faults.late.Wait()
	}
}

func newDisk() *vfs.MemFS { return vfs.NewCrashableMem() }

func set(key, value string) func(kv.Tx) error {
	return func(tx kv.Tx) error {
		tx.Set([]byte(key), []byte(value))
		return nil
	}
}

// read returns the value of a key in a term.
func (w *world) read(db kv.DB, key string) string {
	w.Helper()
	var value []byte
	err := db.View(context.Background(), func(r kv.Reader) (err error) {
		value, err = r.Get([]byte(key))
		return err
	})
	if err != nil {
		w.Fatalf("reading %q: %v", key, err)
	}
	return string(value)
}

func (w *world) write(db kv.DB, key, value string) {
	w.Helper()
	if err := db.Update(context.Background(), set(key, value)); err != nil {
		w.Fatalf("writing %q: %v", key, err)
	}
}

// content is all rows of a member's copy.
func (n *node) content() string {
	n.w.Helper()
	var all []kv.Pair
	err := n.up().Peek(context.Background(), func(r kv.Reader) (err error) {
		all, err = r.Range(nil, bytes.Repeat([]byte{0xff}, kv.MaxKeySize+1), kv.RangeOptions{Limit: 1 << 20})
		return err
	})
	if err != nil {
		n.w.Fatal(err)
	}
	return fmt.Sprintf("%q", all)
}
