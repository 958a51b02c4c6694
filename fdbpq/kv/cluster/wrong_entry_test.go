package cluster_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// A member reads from a server that has damaged what it has. It reads from the leader, and
// follows.
func TestDamagedServer(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		w.allCaughtUp()
		unlucky := w.others(first)[0]
		unlucky.faults.set(func(f *faults) { f.spoiled = true })
		w.write(term, "k", "2")
		w.caughtUp(unlucky)
		if s := unlucky.up().Status(); s.Role != cluster.Follower || s.Reason != "" {
			t.Errorf("the member is %s: %s", s.Role, s.Reason)
		}
	})
}

// The leader of the log has a wrong entry. A member that has not read it stops, vetoes no
// takeover of a member that has it, and follows as soon as the entry is as it should be.
func TestWrongEntryVetoesNothing(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		w.allCaughtUp()
		unlucky, other := w.others(first)[0], w.others(first)[1]
		unlucky.faults.set(func(f *faults) { f.spoiled, f.leading = true, true })
		w.write(term, "k", "2")
		w.await("it stops", func() bool { return unlucky.up().Status().Role == cluster.Stopped })
		if reason := unlucky.up().Status().Reason; !strings.Contains(reason, "not what was written") {
			t.Errorf("it says %q", reason)
		}
		w.caughtUp(other)
		first.kill(rand.New(rand.NewPCG(1, 3)))
		at, next := w.active(other, unlucky)
		if at != other {
			t.Fatalf("member %s took over", at.name)
		}
		w.write(next, "k", "3")
		<-time.After(time.Minute)
		if role := unlucky.up().Status().Role; role != cluster.Stopped {
			t.Errorf("it is a %s while the entry is wrong", role)
		}
		unlucky.faults.set(func(f *faults) { f.spoiled, f.leading = false, false })
		w.caughtUp(unlucky)
		if s := unlucky.up().Status(); s.Role != cluster.Follower || s.Reason != "" {
			t.Errorf("the member is %s: %s", s.Role, s.Reason)
		}
		first.start()
		w.settleCopies()
	})
}
