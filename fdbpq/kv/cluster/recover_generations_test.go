package cluster_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// The copy with which a generation has begun is lost before another member has it, whether
// the others have heard of it or not. The next recovery begins one more generation, and says
// what that costs.
func TestLostSourceOfGeneration(t *testing.T) {
	for name, heard := range map[string]bool{"": false, "heard": true} {
		t.Run(name, func(t *testing.T) {
			run(t, 3, func(w *world) { lostSource(t, w, heard) })
		})
	}
}

func lostSource(t *testing.T, w *world, heard bool) {
	first, furthest, second, release := w.oneBehind()
	<-time.After(2 * time.Second) // disks have it
	first.kill(rand.New(rand.NewPCG(13, 13)))
	first.disk = newDisk()
	w.log.Remove()
	release()
	first.start()
	w.lossNoticed(second)
	others := w.others(furthest)
	if heard {
		furthest.faults.set(func(f *faults) {
			f.halt = func(where halt) {
				if where == behindAppend { // the first record of the generation
					for _, n := range others {
						n.faults.holdLog()
					}
				}
			}
		})
	}
	if r, err := furthest.up().Recover(context.Background(), cluster.Consent{}); err != nil || r.Source.Name != furthest.name {
		t.Fatalf("recovered %+v, %v", r, err)
	}
	if heard {
		w.await("the source to follow the generation", func() bool { return furthest.up().Status().Generation == 2 })
		<-time.After(time.Second) // the others hear of that
	}
	furthest.kill(rand.New(rand.NewPCG(14, 14)))
	for _, n := range others {
		n.faults.set(func(f *faults) { f.blind = false })
	}
	w.idle(time.Minute, first, second)
	r := w.recovered(second, cluster.Consent{Without: []string{furthest.name}})
	if r.Generation != 3 || !strings.Contains(strings.Join(r.Lost, "; "), "all of generation 2") {
		t.Errorf("recovered %+v", r)
	}
	furthest.disk = newDisk()
	furthest.start()
	_, next := w.active()
	if a, b := w.read(next, "a"), w.read(next, "b"); a != "1" || b != "" {
		t.Errorf("the values are %q and %q", a, b)
	}
	w.serves("c", "3")
}

// A recovery has ended a generation that no member could go over to, and was interrupted
// before it began the next one. The members say so, and the recovery that follows begins one.
func TestEndedGeneration(t *testing.T) {
	run(t, 3, func(w *world) {
		_, term := w.active()
		w.write(term, "a", "1")
		w.allCaughtUp()
		for _, log := range []cluster.Log{w.log, w.log.At(2)} {
			if err := log.End(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		w.await("the members to say so", func() bool {
			return strings.Count(w.reasons(), "no newer one has begun") == len(w.nodes)
		})
		if r := w.recovered(w.nodes[0], cluster.Consent{}); r.Generation != 3 || !strings.Contains(strings.Join(r.Lost, "; "), "all of generation 2") {
			t.Errorf("recovered %+v", r)
		}
		_, next := w.active()
		if got := w.read(next, "a"); got != "1" {
			t.Errorf("the value is %q", got)
		}
		w.serves("b", "2")
	})
}

// leftBehind kills the active member and removes the log, and the others go on with a new
// generation. Both generations have the row a, the new one b, too. restore puts the old log back.
func (w *world) leftBehind(rng *rand.Rand) (first *node, others []*node, restore func()) {
	w.Helper()
	first, term := w.active()
	w.write(term, "a", "1")
	w.allCaughtUp()
	old, restore := w.log, w.log.Backup()
	<-time.After(3 * time.Second) // all copies are on their disks
	first.kill(rng)
	old.Remove()
	others = w.others(first)
	w.idle(time.Minute, others...)
	w.recovered(others[0], cluster.Consent{Without: []string{first.name}})
	_, next := w.active(others...)
	w.write(next, "b", "2")
	return first, others, restore
}

// A member was away while the others went on with a new generation, whose first record the
// log has purged. Both others lose their copies. The recovery from the old copy begins one
// more generation: no record can begin the purged one again.
func TestPurgedGeneration(t *testing.T) {
	run(t, 3, func(w *world) {
		first, others, _ := w.leftBehind(rand.New(rand.NewPCG(8, 8)))
		state, err := w.log.State(context.Background())
		if err == nil {
			err = w.log.Purge(context.Background(), state.Last)
		}
		if err != nil || state.Last < 2 {
			t.Fatalf("purging up to entry %d: %v", state.Last, err)
		}
		without := cluster.Consent{}
		for _, n := range others {
			n.kill(rand.New(rand.NewPCG(9, 9)))
			n.disk = newDisk()
			without.Without = append(without.Without, n.name)
		}
		first.start()
		w.idle(time.Minute, first)
		if r := w.recovered(first, without); r.Generation != 3 || !strings.Contains(strings.Join(r.Lost, "; "), "all of generation 2") {
			t.Errorf("recovered %+v", r)
		}
		for _, n := range others {
			n.start()
		}
		_, last := w.active()
		if a, b := w.read(last, "a"), w.read(last, "b"); a != "1" || b != "" {
			t.Errorf("the values are %q and %q", a, b)
		}
		w.serves("c", "3")
	})
}

// A member was away while the others went on with a new generation. When it is back, the log
// of the old one is there again, from a backup. The member hears of the new one, and goes over
// to it, while the others serve.
func TestOldLogIsBackWhileOthersServe(t *testing.T) {
	run(t, 3, func(w *world) {
		first, _, restore := w.leftBehind(rand.New(rand.NewPCG(7, 7)))
		restore()
		first.start()
		w.followed(2)
		w.serves("c", "3")
	})
}
