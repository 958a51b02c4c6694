package cluster_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// lostTo says which members one takes for lost.
func (n *node) lostTo() []string {
	lost, _, _ := n.up().Lost()
	return lost
}

// settled is longer than members that have started may be silent for longer.
const settled = 6 * time.Second

// end ends a member, whose machine refuses connections from then on, and returns the others.
func (n *node) end(seed uint64) []*node {
	n.w.Helper()
	n.kill(rand.New(rand.NewPCG(1, seed)))
	others := n.w.others(n)
	for _, other := range others {
		other.up().Refuses(n.name)
	}
	return others
}

// isActive reports whether the member is the active one.
func (n *node) isActive() bool { return n.up().Status().Role == cluster.Active }

// awaitIn waits until a condition holds, and returns how long that took.
func (w *world) awaitIn(what string, holds func() bool) time.Duration {
	w.Helper()
	began := time.Now()
	w.await(what, holds)
	return time.Since(began)
}

// The active member falls silent: both others say so, and one of them takes over within a second. The time is virtual.
func TestSilenceByTheWordOfTwo(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		w.allCaughtUp()
		<-time.After(settled)
		release := first.faults.hold()
		defer release()
		took := w.awaitIn("a takeover", func() bool { return slices.ContainsFunc(w.others(first), (*node).isActive) })
		if took < cluster.Silence || took > 2*cluster.Silence {
			t.Errorf("another member was active %v after the silence began, expected %v to %v", took, cluster.Silence, 2*cluster.Silence)
		}
	})
}

// A member that alone hears nothing of the active one, because messages do not reach it, waits: the third one says
// nothing of a silence.
func TestSilenceThatNobodyConfirms(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		w.allCaughtUp()
		<-time.After(settled)
		deaf := w.others(first)[0]
		deaf.faults.set(func(f *faults) { f.deaf = true })
		for began := time.Now(); time.Since(began) < time.Second; <-time.After(10 * time.Millisecond) {
			for _, n := range w.nodes {
				if lost := n.lostTo(); len(lost) > 0 && n == deaf {
					t.Fatalf("member %s takes %v for lost after %v", n.name, lost, time.Since(began))
				}
			}
			if !first.isActive() {
				t.Fatalf("the active member was replaced after %v", time.Since(began))
			}
		}
		deaf.faults.set(func(f *faults) { f.deaf = false })
	})
}

// A member whose heartbeats had gaps may be silent for longer.
func TestGapsMakeThePatienceLonger(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		w.allCaughtUp()
		<-time.After(settled)
		stall := func(d time.Duration) {
			release := first.faults.hold()
			<-time.After(d)
			release()
			<-time.After(time.Second)
		}
		for range 3 {
			stall(400 * time.Millisecond) // below the limit
		}
		epoch := w.nodes[0].up().Status().Epoch
		stall(900 * time.Millisecond) // above the default, below two and a half times the gaps before
		if again, _ := w.active(); again != first || first.up().Status().Epoch != epoch {
			t.Errorf("member %s is active after a silence that resembles the gaps before, expected %s", again.name, first.name)
		}
		release := first.faults.hold()
		defer release()
		limit := 6*cluster.Silence + time.Second
		if took := w.awaitIn("a takeover", func() bool { return len(w.others(first)[0].lostTo()) > 0 }); took > limit {
			t.Errorf("a silent member was lost after %v, expected %v at most", took, limit)
		}
	})
}

// The machine of the active member refuses connections: another member takes over at once, in order of rank.
func TestRefusedMemberIsReplacedAtOnce(t *testing.T) {
	run(t, 5, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		w.allCaughtUp()
		others := first.end(6)
		took := w.awaitIn("a takeover", others[0].isActive)
		if took > 150*time.Millisecond {
			t.Errorf("the member of the first rank was active after %v", took)
		}
		_, next := w.active(others[0])
		w.write(next, "k", "2")
		first.start()
		w.caughtUp(first)
		if lost := others[1].lostTo(); len(lost) > 0 {
			t.Errorf("%v are lost after the member is back", lost)
		}
	})
}

// The member of the first rank cannot reach the log: the next one takes over a little later.
func TestNextRankReplacesALostMember(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		w.allCaughtUp()
		release := w.others(first)[0].faults.holdLog()
		defer release()
		took := w.awaitIn("a takeover", first.end(7)[1].isActive)
		if took > 600*time.Millisecond {
			t.Errorf("the member of the second rank was active after %v", took)
		}
	})
}

// A member that is taken for lost by mistake hears of it as of any takeover: nothing that it writes counts.
func TestRefusedMemberThatRuns(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		w.allCaughtUp()
		for _, n := range w.others(first) {
			n.up().Refuses(first.name)
		}
		w.await("the end of the mistake", func() bool { return len(w.others(first)[0].lostTo()) == 0 })
		_, now := w.active()
		if err := now.Update(context.Background(), set("k", "2")); err != nil {
			t.Fatal(err)
		}
		w.settleCopies()
	})
}

// While a majority is lost, no member says that it could replace them. From the moment at which their machines refuse connections the
// last one says who is away. While one of three is lost, it says nothing.
func TestLostMajority(t *testing.T) {
	run(t, 3, func(w *world) {
		first, _ := w.active()
		w.allCaughtUp()
		last := w.others(first)[0]
		for i, n := range w.others(last) {
			n.kill(rand.New(rand.NewPCG(1, 8)))
			last.up().Refuses(n.name)
			if why := last.up().Status().Minority; (why != nil) != (i == 1) {
				t.Errorf("%d of three have ended: %v", i+1, why)
			}
		}
		status := last.up().Status()
		lone := "heard: 1 of 3 nodes, and 2 have to be there: start those that are away: " + w.others(last)[0].name + ", " + w.others(last)[1].name
		if status.Minority == nil || status.Minority.Error() != lone {
			t.Errorf("the last one says %v, expected %q", status.Minority, lone)
		}
		for _, m := range status.Members {
			if !m.Away || !m.Runs {
				t.Errorf("%s is away: %t, was heard within ten seconds: %t; expected both", m.Name, m.Away, m.Runs)
			}
		}
		w.await("the loss", func() bool { return len(last.lostTo()) == 2 })
		if lost, _, ok := last.up().Lost(); ok {
			t.Errorf("%v are lost of three, and the last one would replace them", lost)
		}
	})
}

// A member that hears nobody, and that no machine refuses, says so after the time within which it would replace an active one by itself,
// and until it hears one again. A process that did not run for as long has heard nobody, and says nothing.
func TestSilentMajority(t *testing.T) {
	run(t, 3, func(w *world) {
		last, _ := w.active()
		w.allCaughtUp()
		<-time.After(settled)
		lone := func() bool { return last.up().Status().Minority != nil }
		release := w.others(last)[0].faults.hold()
		<-time.After(settled)
		if lone() {
			t.Errorf("two of three are there: %v", last.up().Status().Minority)
		}
		again := w.others(last)[1].faults.hold()
		if took := w.awaitIn("the loss", lone); took < 1500*time.Millisecond || took > 2*time.Second {
			t.Errorf("the last one said after %v that it hears nobody, expected 1.5 s to 2 s", took)
		}
		release()
		if took := w.awaitIn("the end of the loss", func() bool { return !lone() }); took > 500*time.Millisecond {
			t.Errorf("it said that it hears nobody for %v after one was back", took)
		}
		again()
	})
}

// A member that has heard nobody since it started names the others as they were declared.
func TestLoneMember(t *testing.T) {
	run(t, 3, func(w *world) {
		for _, n := range w.nodes {
			n.stop()
		}
		w.nodes[1].start()
		const lone = "heard: 1 of 3 nodes, and 2 have to be there: start those that are away: a, c"
		if why := w.nodes[1].up().Status().Minority; why == nil || why.Error() != lone {
			t.Errorf("it says %v, expected %q", why, lone)
		}
		w.nodes[0].start()
		w.await("the end of the loss", func() bool { return w.nodes[1].up().Status().Minority == nil })
	})
}

// A member that is asked to lead the log is asked later in the term: requests that waited for the term come first.
func TestApartComesLater(t *testing.T) {
	run(t, 3, func(w *world) {
		asked := make(chan time.Time, 10)
		for _, n := range w.nodes {
			n.options.Apart = func(context.Context, []string) {
				select {
				case asked <- time.Now():
				default:
				}
			}
		}
		w.active()
		w.allCaughtUp()
		for _, n := range w.nodes {
			n.stop()
		}
		for _, n := range w.nodes {
			n.start()
		}
		w.active()
		began := time.Now()
		if took := (<-asked).Sub(began); took < time.Second || took > 3*time.Second {
			t.Errorf("the log was moved away %v into the term, without a transaction", took)
		}
	})
}
