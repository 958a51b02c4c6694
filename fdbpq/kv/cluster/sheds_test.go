package cluster_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// The others hear within two heartbeats that the active member sheds, and that it does no more. What a follower would say of
// itself does not count, and neither does what a silent member has said. The time is virtual.
func TestOthersHearThatTheActiveMemberSheds(t *testing.T) {
	run(t, 3, func(w *world) {
		var sheds atomic.Bool
		w.active()
		for _, n := range w.nodes {
			n.options.Sheds = sheds.Load
			n.stop()
		}
		for _, n := range w.nodes {
			n.start()
		}
		first, _ := w.active()
		w.allCaughtUp()
		<-time.After(settled)
		know := func(want bool) func() bool {
			return func() bool {
				for _, n := range w.others(first) {
					if n.up().Sheds() != want {
						return false
					}
				}
				return true
			}
		}
		const two = 2*cluster.Silence/5 + 10*time.Millisecond
		for _, now := range []bool{false, true, false, true} {
			sheds.Store(now)
			if took := w.awaitIn("the word of the active member", know(now)); took > two {
				t.Errorf("it sheds: %t: the others know that after %v, expected %v at most", now, took, two)
			}
			if first.up().Sheds() {
				t.Error("the active member takes a follower for one that sheds")
			}
		}
		release := first.faults.hold()
		defer release()
		if took := w.awaitIn("the others to forget it", know(false)); took > cluster.Silence+10*time.Millisecond {
			t.Errorf("the others believe a silent member for %v, expected %v at most", took, cluster.Silence)
		}
	})
}
