package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// recovered makes a member begin a new generation, and waits until all that run follow it.
func (w *world) recovered(n *node, c cluster.Consent) cluster.Recovery {
	w.Helper()
	r, err := n.up().Recover(context.Background(), c)
	if err != nil {
		w.Fatalf("recovering: %v\n%+v", err, r)
	}
	w.followed(r.Generation)
	return r
}

// followed waits until all members that run follow a generation.
func (w *world) followed(generation uint64) {
	w.Helper()
	w.await(fmt.Sprint("all members to follow generation ", generation), func() bool {
		for _, n := range w.nodes {
			if member := n.up(); member != nil && member.Status().Generation != generation {
				return false
			}
		}
		return true
	})
	w.log = w.log.At(generation)
}

// serves writes a row and compares all copies.
func (w *world) serves(key, value string) {
	w.Helper()
	w.await("a write", func() bool {
		_, term := w.active()
		return term.Update(context.Background(), set(key, value)) == nil
	})
	w.settleCopies()
}

// The log loses what was acknowledged, or all of it. No member serves; after a recovery all
// go on with what was acknowledged, with a log whose entries have other numbers.
func TestRecover(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(*world)
		says string // the members
		log  string // the plan
	}{
		"lost its end":         {func(w *world) { w.log.Cut(2) }, "it has lost entries that were acknowledged", "has entries 1 to"},
		"is gone":              {func(w *world) { w.log.Remove() }, "the log is gone", "is gone"},
		"made again":           {func(w *world) { w.log.Remove(); _ = w.log.Create(context.Background()) }, "deleted and made again", "has entries 1 to 0"},
		"ended by an operator": {func(w *world) { _ = w.log.End(context.Background()) }, "has ended", "has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, 3, func(w *world) {
				first, term := w.active()
				lagging, ahead := w.others(first)[0], w.others(first)[1]
				w.write(term, "a", "1")
				w.caughtUp(lagging)
				release := lagging.faults.holdLog()
				w.write(term, "b", "2")
				w.write(term, "c", "3")
				w.caughtUp(ahead)
				epoch := term.Epoch()
				c.harm(w)
				release()
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				if err := term.Update(ctx, set("late", "x")); err == nil {
					t.Error("a transaction was written to a log that has lost entries")
				}
				w.idleReads()
				if reasons := w.reasons(); !strings.Contains(reasons, c.says) || !strings.Contains(reasons, "pqd recover") {
					t.Errorf("the members say\n%s", reasons)
				}
				plan, err := lagging.up().PlanRecovery(context.Background(), cluster.Consent{})
				if err != nil || plan.Generation != 2 || plan.Source.Name == lagging.name || len(plan.Lost) > 0 || !strings.Contains(plan.Log, c.log) {
					t.Errorf("the plan is %+v, %v", plan, err)
				}
				r := w.recovered(lagging, cluster.Consent{})
				if r.Generation != 2 || r.Source.Name == lagging.name || len(r.Lost) > 0 {
					t.Errorf("recovered %+v", r)
				}
				_, next := w.active()
				if next.Epoch() <= epoch {
					t.Errorf("epoch %d follows %d", next.Epoch(), epoch)
				}
				for key, want := range map[string]string{"a": "1", "b": "2", "c": "3", "late": ""} {
					if got := w.read(next, key); got != want {
						t.Errorf("%s is %q after the recovery, expected %q", key, got, want)
					}
				}
				w.serves("d", "4")
				if _, err := first.up().Recover(context.Background(), cluster.Consent{}); err == nil || !strings.Contains(err.Error(), "nothing to recover") {
					t.Errorf("recovering a store that is well: %v", err)
				}
				// A member with an empty disk learns which generation there is.
				first.kill(rand.New(rand.NewPCG(1, 2)))
				first.disk = newDisk()
				first.start()
				w.serves("e", "5")
				// And again.
				_, last := w.active()
				w.log.Remove()
				if err := last.Update(ctx, set("late", "x")); err == nil {
					t.Error("a transaction was written to a log that is gone")
				}
				if r := w.recovered(first, cluster.Consent{}); r.Generation != 3 {
					t.Errorf("the second recovery began generation %d", r.Generation)
				}
				if _, now := w.active(); now.Epoch() <= last.Epoch() {
					t.Errorf("epoch %d follows %d after the second recovery", now.Epoch(), last.Epoch())
				}
				w.serves("f", "6")
			})
		})
	}
}

// idleReads lets a minute pass in which no term answers a read.
func (w *world) idleReads() {
	w.Helper()
	for began := time.Now(); time.Since(began) < time.Minute; {
		for _, n := range w.nodes {
			member := n.up()
			if member == nil {
				continue
			}
			if term := member.Current(); term != nil {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				err := term.View(ctx, func(r kv.Reader) error {
					_, err := r.Get([]byte("a"))
					return err
				})
				cancel()
				if err == nil {
					w.Fatalf("member %s answers: %+v", n.name, member.Status())
				}
			}
		}
		<-time.After(500 * time.Millisecond)
	}
}

// oneBehind has the active member and one of the others write an entry that the last one
// does not get before release.
func (w *world) oneBehind() (first, furthest, second *node, release func()) {
	first, term := w.active()
	furthest, second = w.others(first)[0], w.others(first)[1]
	w.write(term, "a", "1")
	w.caughtUp(second)
	release = second.faults.holdLog()
	w.write(term, "b", "2")
	w.caughtUp(furthest)
	return first, furthest, second, release
}

// All members that knew of an entry have started again, or are silent for good. What they
// heard is on their disks: none goes on with a log that lost the entry.
func TestFurthestEntryIsRemembered(t *testing.T) {
	run(t, 3, func(w *world) {
		first, furthest, second, release := w.oneBehind()
		<-time.After(3 * time.Second)
		rng := rand.New(rand.NewPCG(6, 6))
		for _, n := range w.nodes {
			n.kill(rng)
		}
		w.log.Cut(1)
		release()
		second.start()
		first.disk = newDisk()
		first.start()
		w.idle(time.Minute, first, second)
		if reasons := w.reasons(); !strings.Contains(reasons, "had entry 4 of generation 1, the log ends at 3") {
			t.Errorf("the members say\n%s", reasons)
		}
		r := w.recovered(second, cluster.Consent{Without: []string{furthest.name}})
		if len(r.Lost) == 0 {
			t.Error("nothing is said to be lost")
		}
		furthest.start()
		w.serves("c", "3")
	})
}

// A recovery without the member that is furthest needs its name, and says what is lost.
// When that member is back it serves nothing of its own, and keeps its old copy.
func TestRecoverWithoutMember(t *testing.T) {
	run(t, 3, func(w *world) {
		first, furthest, second, release := w.oneBehind()
		<-time.After(2 * time.Second) // disks have it, and all have heard of it
		rng := rand.New(rand.NewPCG(3, 3))
		first.kill(rng)
		furthest.kill(rng)
		first.disk = newDisk()
		w.log.Cut(1)
		release()
		first.start()
		w.idle(30*time.Second, first, second)
		_, err := second.up().Recover(context.Background(), cluster.Consent{})
		if err == nil || !strings.Contains(err.Error(), "no answer from "+furthest.name) {
			t.Fatalf("recovering without a member that is not named: %v", err)
		}
		if _, err := second.up().Recover(context.Background(), cluster.Consent{Without: []string{"x"}}); err == nil || !strings.Contains(err.Error(), "expected one of a, b, c") {
			t.Errorf("recovering without an unknown member: %v", err)
		}
		if _, err := second.up().Recover(context.Background(), cluster.Consent{Without: []string{furthest.name, first.name}}); err == nil ||
			!strings.Contains(err.Error(), first.name+" answers") {
			t.Errorf("recovering without a member that answers: %v", err)
		}
		r := w.recovered(second, cluster.Consent{Without: []string{furthest.name}})
		if len(r.Lost) != 1 || !strings.Contains(r.Lost[0], "which member "+furthest.name+" has") {
			t.Errorf("lost: %q", r.Lost)
		}
		_, next := w.active()
		if a, b := w.read(next, "a"), w.read(next, "b"); a != "1" || b != "" {
			t.Errorf("the values are %q and %q", a, b)
		}
		furthest.start()
		w.serves("c", "3")
		if _, err := furthest.disk.Stat("/copy.generation-1"); err != nil {
			t.Errorf("the old copy: %v", err)
		}
		if _, err := second.disk.Stat("/copy.generation-1"); err == nil {
			t.Error("a copy from which the store went on was set aside")
		}
	})
}

// The active member hangs in an append whose place is the very next one of the log that
// lost an entry. It can acknowledge nothing any more after the recovery, whenever it goes on.
func TestOldActiveAfterRecovery(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "a", "1")
		for _, n := range w.others(first) {
			w.caughtUp(n)
		}
		release := first.faults.hold()
		late := make(chan error, 1)
		go func() { late <- term.Update(context.Background(), set("a", "late")) }()
		other := w.others(first)[0]
		w.active(w.others(first)...) // it writes its epoch in the place of the append
		w.log.Cut(1)
		w.log.Cut(1)
		w.lossNoticed(other, first.name)
		old := w.log
		r, err := other.up().Recover(context.Background(), cluster.Consent{Without: []string{first.name}})
		if err != nil {
			t.Fatal(err)
		}
		release()
		if err := <-late; err == nil {
			t.Error("a transaction of the old generation was acknowledged")
		}
		w.followed(r.Generation)
		if state, err := old.State(context.Background()); err != nil || !state.Ended {
			t.Errorf("the old log is %+v, %v", state, err)
		}
		_, next := w.active()
		if got := w.read(next, "a"); got != "1" {
			t.Errorf("the value is %q", got)
		}
		w.serves("b", "2")
	})
}

// A member was away while the others went on with a new generation. When it is back, the log
// of the old one is there again as it was, from a backup. The member does not become active
// with it: it goes over to the new generation.
func TestOldLogIsBack(t *testing.T) {
	run(t, 3, func(w *world) {
		rng, old := rand.New(rand.NewPCG(7, 7)), w.log
		first, others, restore := w.leftBehind(rng)
		for _, n := range others {
			w.caughtUp(n)
		}
		<-time.After(3 * time.Second)
		for _, n := range others {
			n.kill(rng)
		}
		restore()
		first.start()
		w.active(first)
		if at := first.up().Status(); at.Generation != 2 {
			t.Errorf("the member is active with the old log: %+v", at)
		}
		if state, err := old.State(context.Background()); err != nil || state.Ended {
			t.Fatalf("the old log is %+v, %v", state, err)
		}
		for _, n := range others {
			n.start()
		}
		w.followed(2)
		_, last := w.active()
		if a, b := w.read(last, "a"), w.read(last, "b"); a != "1" || b != "2" {
			t.Errorf("the values are %q and %q", a, b)
		}
		w.serves("c", "3")
	})
}

// Recoveries are cut off at any moment, and several members try at the same time. In
// the end one generation is there with all that was acknowledged.
func TestRecoverInterrupted(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			run(t, 3, func(w *world) {
				rng := rand.New(rand.NewPCG(seed, 4))
				_, term := w.active()
				w.write(term, "a", "1")
				for _, n := range w.nodes {
					w.caughtUp(n)
					n.faults.set(func(f *faults) { f.rng, f.chance = rand.New(rand.NewPCG(seed, uint64(n.name[0]))), 0.1 })
				}
				w.log.Remove()
				first := w.log
				var attempts sync.WaitGroup
				begun := make(chan uint64, 100)
				for _, n := range w.nodes {
					random := rand.New(rand.NewPCG(seed, uint64(n.name[0])+100))
					attempts.Go(func() {
						for range 8 {
							ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.Int64N(int64(40*time.Second))))
							r, err := n.up().Recover(ctx, cluster.Consent{})
							cancel()
							if err == nil {
								begun <- r.Generation
							}
							_ = rest(context.Background(), time.Duration(random.Int64N(int64(5*time.Second))))
						}
					})
				}
				if rng.IntN(2) == 0 {
					_ = rest(context.Background(), time.Duration(rng.Int64N(int64(30*time.Second))))
					w.nodes[0].kill(rng)
					w.nodes[0].start()
				}
				attempts.Wait()
				for _, n := range w.nodes {
					n.faults.set(func(f *faults) { f.chance = 0 })
				}
				for {
					_, err := w.nodes[1].up().Recover(context.Background(), cluster.Consent{})
					if err == nil {
						continue
					}
					if strings.Contains(err.Error(), "nothing to recover") {
						break
					}
					t.Log(err)
					<-time.After(time.Second)
				}
				newest, err := first.Newest(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				w.followed(newest)
				t.Logf("generation %d after %d recoveries", newest, len(begun))
				_, next := w.active()
				if got := w.read(next, "a"); got != "1" {
					t.Errorf("the value is %q", got)
				}
				w.serves("b", "2")
			})
		})
	}
}

// Two recoveries begin at the same time: one begins the generation, the other one says so.
func TestTwoRecoveries(t *testing.T) {
	run(t, 3, func(w *world) {
		_, term := w.active()
		w.write(term, "a", "1")
		w.log.Remove()
		if err := term.Update(context.Background(), set("a", "late")); err == nil {
			t.Error("a transaction was written to a log that is gone")
		}
		results := make(chan error, len(w.nodes))
		for _, n := range w.nodes {
			go func() {
				_, err := n.up().Recover(context.Background(), cluster.Consent{})
				results <- err
			}()
		}
		won := 0
		for range w.nodes {
			switch err := <-results; {
			case err == nil:
				won++
			case !strings.Contains(err.Error(), "another recovery has begun generation 2") && !strings.Contains(err.Error(), "has begun with the copy of"):
				t.Errorf("a recovery failed: %v", err)
			}
		}
		if won != 1 {
			t.Errorf("%d recoveries began a generation, expected 1", won)
		}
		w.followed(2)
		w.serves("b", "2")
	})
}

// There is nothing to recover while a member serves, and a member that is silent may have
// what is missing.
func TestRecoverRefuses(t *testing.T) {
	run(t, 3, func(w *world) {
		first, _ := w.active()
		other := w.others(first)[0]
		refused := func(says string) {
			t.Helper()
			r, err := other.up().Recover(context.Background(), cluster.Consent{})
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("recovered %+v, %v, expected a refusal that says %q", r, err, says)
			}
		}
		refused("serves the store")
		w.log.Remove()
		first.stop()
		refused("no answer from " + first.name)
		if state, err := w.log.State(context.Background()); !errors.Is(err, cluster.ErrNoLog) {
			t.Errorf("a recovery that was refused left the log %+v, %v", state, err)
		}
	})
}
