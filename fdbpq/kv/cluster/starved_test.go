package cluster_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// The active member dies, and for seconds the servers of the others do not show what it has
// written: they are starved, or a server that led the log before answers. Nobody says that something
// was lost, and one of them goes on when they do.
func TestSlowLogHasLostNothing(t *testing.T) {
	for _, objector := range []string{"one has read it", "it was only heard of"} {
		t.Run(objector, func(t *testing.T) {
			run(t, 3, func(w *world) {
				first, term := w.active()
				w.write(term, "k", "1")
				w.allCaughtUp()
				slow := w.others(first)
				if objector == "one has read it" {
					slow = slow[:1]
				}
				for _, n := range slow {
					n.faults.set(func(f *faults) { f.unseen = 1 << 30 })
				}
				w.write(term, "k", "2")
				<-time.After(time.Second)
				others := w.others(first)
				first.kill(rand.New(rand.NewPCG(5, 5)))
				if objector == "one has read it" {
					release := others[1].faults.holdLog() // it cannot take over
					defer release()
				}
				said := ""
				for began := time.Now(); time.Since(began) < 9*time.Second; <-time.After(20 * time.Millisecond) {
					if reasons := w.reasons(); strings.Contains(reasons, "lost") || strings.Contains(reasons, "recover") {
						t.Fatalf("after %v the members say\n%s", time.Since(began), reasons)
					}
					said = w.reasons()
				}
				if !strings.Contains(said, "waiting for the log to show it") {
					t.Errorf("the members say\n%s", said)
				}
				for _, n := range slow {
					n.faults.set(func(f *faults) { f.unseen = 0 })
				}
				_, next := w.active(slow...)
				if got := w.read(next, "k"); got != "2" {
					t.Errorf("the value is %q", got)
				}
			})
		})
	}
}
