package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

func wantUnavailable(t testing.TB, err error, text string) {
	t.Helper()
	if !errors.Is(err, kv.ErrUnavailable) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, expected ErrUnavailable with %q", err, text)
	}
}

// idle waits for a while in which some members must not be active.
func (w *world) idle(d time.Duration, nodes ...*node) {
	w.Helper()
	for began := time.Now(); time.Since(began) < d; {
		for _, n := range nodes {
			if member := n.up(); member != nil && member.Status().Role == cluster.Active {
				w.Fatalf("member %s is active: %+v", n.name, member.Status())
			}
		}
		<-time.After(50 * time.Millisecond)
	}
}

// reasons are what members say.
func (w *world) reasons() (all string) {
	for _, n := range w.nodes {
		if member := n.up(); member != nil {
			s := member.Status()
			all += n.name + " " + string(s.Role) + ": " + s.Reason + "\n"
		}
	}
	return all
}

// The log loses its end, which one follower has and the other one lacks. The one that
// lacks it must not go on, whether the other one is there to object or was heard before.
func TestLogThatLostItsEnd(t *testing.T) {
	for _, objector := range []string{"there", "silent", "the active one"} {
		t.Run(objector, func(t *testing.T) {
			run(t, 3, func(w *world) {
				first, term := w.active()
				lagging, ahead := w.others(first)[0], w.others(first)[1]
				w.write(term, "k", "1")
				w.caughtUp(lagging)
				w.caughtUp(ahead)
				// The one that lags hears of the others, and reads nothing.
				release := lagging.faults.holdLog()
				w.write(term, "k", "2")
				w.write(term, "k", "3")
				w.caughtUp(ahead)
				<-time.After(time.Second)
				rng := rand.New(rand.NewPCG(9, 9))
				w.log.Cut(2)
				switch objector {
				case "there":
					first.kill(rng)
				case "silent":
					first.kill(rng)
					ahead.kill(rng)
				default:
					ahead.kill(rng)
					first.faults.hold() // its process hangs for good
				}
				release()
				w.idle(time.Minute, lagging, ahead)
				if !strings.Contains(w.reasons(), "lost entries that were acknowledged") {
					t.Errorf("the members say\n%s", w.reasons())
				}
			})
		})
	}
}

// The log was deleted and made again: no member serves the empty one in the place of the
// store, not even a member that has no copy.
func TestLogMadeAgain(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		newcomer := w.others(first)[0]
		rng := rand.New(rand.NewPCG(10, 10))
		newcomer.kill(rng)
		newcomer.disk = newDisk()
		w.log.Remove()
		newcomer.start()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := term.Update(ctx, set("k", "2"))
		cancel()
		if err == nil {
			t.Error("a transaction was written to a log that is gone")
		}
		w.idle(20*time.Second, w.others(first)...)
		if !strings.Contains(w.reasons(), "the log is gone") && !strings.Contains(w.reasons(), "there is no such log") {
			t.Errorf("the members say\n%s", w.reasons())
		}
		if err := w.log.Create(context.Background()); err != nil {
			t.Fatal(err)
		}
		w.idle(time.Minute, w.nodes...)
		if !strings.Contains(w.reasons(), "deleted and made again") {
			t.Errorf("the members say\n%s", w.reasons())
		}
	})
}

// A bit of a record flips in the log: a member that has not read it stops and objects.
func TestDamagedRecord(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		late := w.others(first)[0]
		w.caughtUp(late)
		late.kill(rand.New(rand.NewPCG(11, 11)))
		w.write(term, "k", "2")
		state, err := w.log.State(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		w.log.Corrupt(state.Last, 8*200+3)
		late.start()
		w.await("the damage to be found", func() bool { return late.up().Status().Role == cluster.Stopped })
		if reason := late.up().Status().Reason; !strings.Contains(reason, "not what was written") {
			t.Errorf("it says %q", reason)
		}
	})
}

// A newer version has written a record: members that cannot read it stop.
func TestUnknownFormat(t *testing.T) {
	run(t, 3, func(w *world) {
		first, _ := w.active()
		other := w.others(first)[0]
		first.kill(rand.New(rand.NewPCG(12, 12)))
		w.await("a foreign record", func() bool {
			state, err := w.log.State(context.Background())
			return err == nil && w.log.Append(context.Background(), state.Last, append(append([]byte("pqr"), chain.RecordFormat+1), "what comes later"...)) == nil
		})
		w.await("it to be found", func() bool { return other.up().Status().Role == cluster.Stopped })
		if reason := other.up().Status().Reason; !strings.Contains(reason, fmt.Sprintf("format is %d, expected %d", chain.RecordFormat+1, chain.RecordFormat)) {
			t.Errorf("it says %q", reason)
		}
	})
}

// The log loses the answer to an append. What was written counts once, and what another
// member's record has pushed aside certainly does not count.
func TestLostAnswers(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		first.faults.set(func(f *faults) { f.answers = 1 })
		w.write(term, "k", "2")
		if got := w.read(term, "k"); got != "2" {
			t.Errorf("the value is %q", got)
		}

		// The request is lost, and before it is repeated another member takes over.
		release := first.faults.hold()
		late := make(chan error, 1)
		go func() { late <- term.Update(context.Background(), set("k", "late")) }()
		_, next := w.active(w.others(first)...)
		synctest.Wait()
		release()
		wantUnavailable(t, <-late, "another member has written")
		if got := w.read(next, "k"); got != "2" {
			t.Errorf("the value is %q", got)
		}
	})
}

// The place of an append was purged before its writer could look: it stays unknown
// whether it was there, so the answer must not be that it was not.
func TestPurgedPlace(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "k", "1")
		first.faults.set(func(f *faults) { f.answers, f.blinding = 1, true })
		unknown := make(chan error, 1)
		go func() { unknown <- term.Update(context.Background(), set("k", "2")) }()
		_, next := w.active(w.others(first)...)
		if got := w.read(next, "k"); got != "2" {
			t.Errorf("the value is %q", got)
		}
		w.write(next, "k", "3")
		state, err := w.log.State(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.log.Purge(context.Background(), state.Last); err != nil {
			t.Fatal(err)
		}
		first.faults.set(func(f *faults) { f.blind = false })
		if err := <-unknown; !errors.Is(err, kv.ErrUnknown) {
			t.Errorf("the transaction returned %v, expected ErrUnknown", err)
		}
		w.settleCopies()
	})
}

// A store is a moment old when all members lose their power, and its log is lost. No copy was
// synced for an entry yet. No member takes its copy for empty: an empty store in the place of
// this one would lose what was acknowledged.
func TestYoungStoreIsNotReplaced(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			run(t, 3, func(w *world) {
				_, term := w.active()
				w.write(term, "k", "1")
				rng := rand.New(rand.NewPCG(seed, 0))
				for _, n := range w.nodes {
					n.kill(rng)
				}
				w.log.Remove()
				for _, n := range w.nodes {
					n.start()
				}
				w.idle(time.Minute, w.nodes...)
				if reasons := w.reasons(); !strings.Contains(reasons, "the log is gone") {
					t.Errorf("the members say\n%s", reasons)
				}
			})
		})
	}
}
