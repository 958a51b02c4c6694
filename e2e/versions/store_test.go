package versions_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/testenv"
)

// The earlier program and this one take turns on an embedded store, each where the other was killed or stopped.
// Nothing acknowledged is lost, nothing comes twice, and neither finds damage in what the other left.
func TestVersionsOfStore(t *testing.T) {
	rounds(t, func(t *testing.T, x *turns) {
		program := x.program()
		p := testenv.DaemonOf(t, program)
		stop := func(t testing.TB, end func(testing.TB)) {
			end(t)
			x.check(t, p.Dir)
			if t.Failed() {
				t.Logf("the last to serve it was %s", x.name(program))
			}
		}
		change := func(t testing.TB) (what string) {
			if x.random.IntN(3) == 0 {
				x.counts["pauses"]++
				p.Pause(t)
				<-time.After(time.Duration(x.random.Int64N(int64(2 * time.Second))))
				p.Resume(t)
			}
			if what = "kills"; x.random.IntN(2) == 0 {
				stop(t, p.Kill)
			} else {
				what = "stops"
				stop(t, p.Stop)
			}
			program = x.next(program)
			p.Runs(program)
			p.Start(t)
			return what
		}
		load{url: p.URL, bridges: history.One, slack: 100 * time.Millisecond, queues: 4, workers: 4, steps: 100, changes: 6, change: change}.run(t, x)
		stop(t, p.Stop)
	})
}
