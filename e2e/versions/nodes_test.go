package versions_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/testenv"
)

// Three nodes keep a store together, and each is the earlier program or this one, at random: the log, the copies, the
// words between members and between servers are those of both.
func TestVersionsOfNodes(t *testing.T) {
	rounds(t, func(t *testing.T, x *turns) {
		programs := []string{x.program(), x.program(), x.program()}
		nodes := testenv.NodesOf(t, programs)
		faults := &pqd.NodeFaults{Nodes: nodes, Random: x.random}
		restart := func(t testing.TB, i int, end func(*testenv.Process)) {
			p := nodes.All[i]
			end(p)
			programs[i] = x.next(programs[i])
			p.Runs(programs[i])
			p.Start(t)
		}
		kill, stop := func(p *testenv.Process) { p.Kill(t) }, func(p *testenv.Process) { p.Stop(t) }
		change := func(t testing.TB) (what string) {
			one := x.random.IntN(len(nodes.All))
			switch x.random.IntN(6) {
			case 0, 1:
				what = "kills"
				restart(t, one, kill)
			case 2:
				what = "stops"
				restart(t, one, stop)
			case 3:
				what = "rolling restarts"
				for i := range nodes.All {
					restart(t, i, stop)
				}
			case 4:
				what = "pauses"
				nodes.All[one].Pause(t)
				<-time.After(time.Duration(x.random.Int64N(int64(2 * time.Second))))
				nodes.All[one].Resume(t)
			case 5:
				what = "handovers"
				faults.StepDown(t)
			}
			nodes.Active(t)
			return what
		}
		load{url: nodes.URL(), bridges: history.One, slack: time.Second, queues: 4, workers: 4, steps: 60, changes: 6, change: change}.run(t, x)
		for _, p := range nodes.All {
			p.Terminate(t)
		}
		for _, p := range nodes.All {
			p.AwaitEnd(t) // with any code: the last one has nobody to hand over to
			x.check(t, p.Dir)
		}
	})
}
