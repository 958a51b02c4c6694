package cluster_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The store takes no new items while the disk of the active member is nearly full, or those of so
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
