package cluster_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// lossNoticed waits until a member would recover.
func (w *world) lossNoticed(n *node) {
	w.Helper()
	w.await("the loss to be noticed", func() bool {
		_, err := n.up().PlanRecovery(context.Background(), cluster.Consent{})
		return err == nil
	})
}

// A loss that passes, or that changes, because servers describe an old state of the log, ends
// no log.
func TestLossThatPasses(t *testing.T) {
	for name, lost := range map[string]int{"passes": 0, "changes": 1} {
		t.Run(name, func(t *testing.T) {
			run(t, 3, func(w *world) {
				first, term := w.active()
				w.write(term, "a", "1")
				w.write(term, "b", "2")
				for _, n := range w.nodes {
					w.caughtUp(n)
				}
				w.log.Cut(lost)
				restore := w.log.Backup()
				w.log.Cut(1)
				other := w.others(first)[0]
				w.lossNoticed(other)
				refused := make(chan error, 1)
				go func() {
					_, err := other.up().Recover(context.Background(), cluster.Consent{})
					refused <- err
				}()
				<-time.After(9 * time.Second)
				restore()
				if err := <-refused; err == nil || !strings.Contains(err.Error(), "nothing was done") && !strings.Contains(err.Error(), "nothing to recover") {
					t.Errorf("recovering from a loss that has passed: %v", err)
				}
				if state, err := w.log.State(context.Background()); err != nil || state.Ended {
					t.Errorf("the log is %+v, %v", state, err)
				}
			})
		})
	}
}

// A member that ends while it is asked has not answered.
func TestMemberEndsDuringSurvey(t *testing.T) {
	run(t, 3, func(w *world) {
		first, term := w.active()
		w.write(term, "a", "1")
		silent, other := w.others(first)[0], w.others(first)[1]
		w.caughtUp(other)
		silent.kill(rand.New(rand.NewPCG(11, 11)))
		w.log.Remove()
		planned := make(chan error, 1)
		go func() {
			_, err := other.up().PlanRecovery(context.Background(), cluster.Consent{Without: []string{silent.name}})
			planned <- err
		}()
		<-time.After(time.Second) // the silent one is waited for
		first.stop()
		if err := <-planned; err == nil || !strings.Contains(err.Error(), "no answer from "+first.name) {
			t.Errorf("the plan without a member that has ended: %v", err)
		}
	})
}

// An append of an active member that hangs lands right before the recovery ends the log, and
// the member hears of it after the end. Its client gets an acknowledgement, so the recovery
// must not go on with a copy that lacks the entry.
func TestAppendRightBeforeTheEnd(t *testing.T) {
	for name, chosen := range map[string]bool{"no copy is chosen": false, "its copy is chosen": true} {
		t.Run(name, func(t *testing.T) {
			run(t, 3, func(w *world) { appendRightBeforeTheEnd(t, w, chosen) })
		})
	}
}

func appendRightBeforeTheEnd(t *testing.T, w *world, chosen bool) {
	first, term := w.active()
	w.write(term, "a", "1")
	for _, n := range w.nodes {
		w.caughtUp(n)
	}
	land, landed, answer := make(chan struct{}), make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(land) })
	seen := sync.OnceFunc(func() { close(landed) })
	first.faults.set(func(f *faults) {
		f.halt = func(where halt) {
			switch where {
			case beforeAppend:
				<-land
			case behindAppend:
				seen()
				<-answer
			}
		}
	})
	late := make(chan error, 1)
	go func() { late <- term.Update(context.Background(), set("a", "late")) }()
	other := w.others(first)[0]
	w.active(w.others(first)...) // it writes its epoch in the place of the append
	w.log.Cut(1)
	w.lossNoticed(other)
	other.faults.set(func(f *faults) {
		f.halt = func(where halt) {
			if where == beforeEnd {
				begin()
				<-landed
			}
		}
	})
	var c cluster.Consent
	if chosen {
		c.Source = first.name
	}
	recovered := make(chan error, 1)
	go func() {
		_, err := other.up().Recover(context.Background(), c)
		recovered <- err
	}()
	<-landed
	<-time.After(time.Second)
	close(answer)
	if err := <-late; err != nil {
		t.Errorf("the append that has landed: %v", err)
	}
	switch err := <-recovered; {
	case chosen && err != nil:
		t.Errorf("recovering with the copy that has the entry: %v", err)
	case !chosen && (err == nil || !strings.Contains(err.Error(), "differ")):
		t.Errorf("recovering beside a copy that has another entry: %v", err)
	case !chosen:
		w.recovered(other, cluster.Consent{Source: first.name})
	}
	w.followed(2)
	_, next := w.active()
	if got := w.read(next, "a"); got != "late" {
		t.Errorf("the value is %q", got)
	}
}
