package cluster_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// partWritten has the active member write parts of a transaction, and silences it before the
// end. The others have read the parts.
func (w *world) partWritten() (first *node, release func()) {
	w.Helper()
	first, term := w.active()
	w.write(term, "a", "1")
	w.allCaughtUp()
	written, halted, parts := make(chan struct{}), make(chan struct{}), 0
	first.faults.set(func(f *faults) {
		f.halt = func(where halt) {
			if where == behindAppend {
				if parts++; parts == 2 {
					close(written)
					<-halted
				}
			}
		}
	})
	go func() {
		_ = term.Update(context.Background(), set("b", strings.Repeat("x", 2000))) // that it ends is all that counts
	}()
	<-written
	<-time.After(time.Second) // the others read the parts
	first.faults.set(func(f *faults) { f.halt = nil })
	hold := first.faults.hold()
	close(halted)
	return first, hold
}

func runInParts(t *testing.T, test func(w *world)) {
	run(t, 3, func(w *world) {
		w.log.Entry = 600
		test(w)
	})
}

// The log is lost between two parts of a transaction, which all members have read. They go
// over to a new generation from their copies, which have no part of it.
func TestRecoverBetweenParts(t *testing.T) {
	runInParts(t, func(w *world) {
		first, release := w.partWritten()
		w.log.Remove()
		other := w.others(first)[0]
		w.lossNoticed(other, first.name)
		r, err := other.up().Recover(context.Background(), cluster.Consent{Without: []string{first.name}})
		if err != nil {
			t.Fatal(err)
		}
		release()
		w.followed(r.Generation)
		for _, n := range w.nodes {
			if _, err := n.disk.Stat("/copy.generation-1"); err == nil {
				t.Errorf("member %s has set its copy aside, which is the one of the store", n.name)
			}
		}
		_, next := w.active()
		if a, b := w.read(next, "a"), w.read(next, "b"); a != "1" || b != "" {
			t.Errorf("the values are %q and %.10q", a, b)
		}
		w.serves("c", "3")
	})
}

// The log loses its end, and ends with a part of a transaction then, which has its end in two
// copies. The member that lacks it has read all of the log there is.
func TestRecoverLogThatEndsWithAPart(t *testing.T) {
	runInParts(t, func(w *world) {
		first, term := w.active()
		w.write(term, "a", "1")
		w.allCaughtUp()
		lagging := w.others(first)[0]
		release := lagging.faults.holdLog()
		w.write(term, "b", strings.Repeat("x", 2000))
		w.caughtUp(w.others(first)[1])
		w.log.Cut(2)
		release()
		w.lossNoticed(lagging)
		w.recovered(lagging, cluster.Consent{})
		_, next := w.active()
		if b := w.read(next, "b"); len(b) != 2000 {
			t.Errorf("the transaction in parts is %.10q", b)
		}
		w.serves("c", "3")
	})
}

// The log loses parts of a transaction that never had an end. Nothing is lost: a member that
// has read them takes over by itself.
func TestLogLosesParts(t *testing.T) {
	runInParts(t, func(w *world) {
		first, release := w.partWritten()
		first.kill(rand.New(rand.NewPCG(1, 1)))
		release()
		w.log.Cut(2)
		_, next := w.active(w.others(first)...)
		if a, b := w.read(next, "a"), w.read(next, "b"); a != "1" || b != "" {
			t.Errorf("the values are %q and %.10q", a, b)
		}
		w.write(next, "c", "3")
		first.start()
		w.settleCopies()
	})
}

// A member was paused while another one took over, and has nothing to write when it goes on:
// it finds out, and steps down.
func TestIdleMemberStepsDown(t *testing.T) {
	run(t, 3, func(w *world) {
		first, _ := w.active()
		release := first.faults.hold()
		w.active(w.others(first)...)
		release()
		w.await("the first member to step down", func() bool { return first.up().Status().Role == cluster.Follower })
	})
}
