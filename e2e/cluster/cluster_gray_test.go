package cluster_test

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/e2e/internal/slowdisk"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

var flagGray = flag.Duration("pq.gray", 0, "how long a disk, a processor or the network of a node is slow; 0: a minute, and three at night")

// gray are nodes of which one is slow at times, or their network is, and clients that use them all the time.
type gray struct {
	*pqd.Campaign
	nodes *testenv.Nodes
	ways  *testenv.Ways // between the nodes; nil: none
}

// How long clients use the nodes: to know the rate before, beside the fault, and for each look behind it. The old rate has to be back
// within a minute. The machine has other work as well, so half of it is enough.
const (
	grayBefore = 15 * time.Second
	grayLook   = 5 * time.Second
	grayBack   = time.Minute
	grayShare  = 0.5
)

func grayFor() time.Duration {
	switch {
	case *flagGray != 0:
		return *flagGray
	case nightly.Runs():
		return 3 * time.Minute
	}
	return time.Minute
}

// A machine that keeps processes from running for machineStalls may be why a node is taken for lost, with half a second of silence, of
// which heartbeats take a part. Each time that explains perStall: two nodes that lose the third one, and an election.
const (
	machineStalls = 200 * time.Millisecond
	perStall      = 3
)

// suffer has clients use the nodes before something makes them slow, beside it, and behind it.
func (g *gray) suffer(t *testing.T, name string, begin func() (relief func())) {
	t.Helper()
	g.Meanwhile(t, name, 8, func(load *pqd.Load) {
		load.Rate(settled) // of nodes that have just begun
		before := load.Rate(grayBefore)
		relief := begin() // the active node may hand on the lead of the log before
		turns, witness := pqd.TurnsOf(g.nodes), pqd.NewWitness(machineStalls)
		beside := load.Rate(grayFor())
		taken := pqd.TurnsOf(g.nodes).Since(turns)
		relief()
		stalls, longest := witness.End()
		t.Logf("%.0f operations a second before, and %.0f for %s; %+v; %d stalls of the machine, up to %s", before, beside, grayFor(), taken, stalls, longest)
		switch {
		case beside == 0:
			t.Errorf("nothing was served for %s", grayFor())
		case taken.Sum() > perStall*stalls:
			t.Errorf("%+v, no node was down, and the machine has stalled %d times", taken, stalls)
		}
		relieved := time.Now()
		for {
			after, since := load.Rate(grayLook), time.Since(relieved).Round(time.Second)
			if after >= grayShare*before {
				t.Logf("%.0f operations a second, %s behind that", after, since)
				return
			}
			if since > testenv.Times(grayBack) {
				t.Errorf("%.0f operations a second, %s behind that, and %.0f before", after, since, before)
				return
			}
		}
	})
}

// newGray starts nodes that are slow later. Without programs, they are those of this repository, with a network between them.
func newGray(t *testing.T, programs []string, env ...string) *gray {
	t.Helper()
	env = append(env, "PQ_LOG_LEVEL=debug") // it shows which node leads the log
	g := &gray{Campaign: &pqd.Campaign{Random: pqd.Seeded(t), Attempt: 10 * time.Second}}
	if programs == nil {
		g.nodes, g.ways = testenv.NewNodesApart(t, g.Random, env...)
	} else {
		g.nodes = testenv.NodesOf(t, programs, env...)
	}
	g.URL = g.nodes.URL()
	return g
}

// of is a node by what it does: one serves, another one leads the log, and the third one does neither. The active node hands the lead
// of the log on, so they become three soon.
func (g *gray) of(t *testing.T, role string) (found *testenv.Process) {
	t.Helper()
	x := &pqd.NodeFaults{Nodes: g.nodes}
	x.Prepare(t, pqd.LeaderKilled)
	active, leader := g.nodes.Active(t), x.Leader()
	for _, p := range g.nodes.All {
		if (p == active) == (role == "active") && (p == leader) == (role == "leader") {
			found = p
		}
	}
	if found == nil {
		t.Fatalf("%s serves, %s leads the log: expected two nodes", active.Node(), leader.Node())
	}
	return found
}

// each has one node after the other be slow.
func (g *gray) each(t *testing.T, begin func(*testing.T, *testenv.Process) (relief func())) {
	for _, role := range []string{"third", "leader", "active"} {
		t.Run(role, func(t *testing.T) {
			g.suffer(t, role, func() (relief func()) { return begin(t, g.of(t, role)) })
		})
	}
}

// A node whose disk takes 50 to 500 ms for each sync is slow and not lost: nobody takes over from it.
func TestSlowSync(t *testing.T) {
	nightly.Only(t, "TestDiskFaults has a disk that hangs, and a minute beside a slow disk takes minutes")
	t.Parallel()
	g := newGray(t, slices.Repeat([]string{slowdisk.Program(t)}, 3), slowdisk.File(t))
	g.each(t, func(t *testing.T, p *testenv.Process) (relief func()) {
		slowdisk.Set(t, p, 50*time.Millisecond, 500*time.Millisecond)
		return func() { slowdisk.Set(t, p, 0, 0) }
	})
}

// Nodes that are 100 ms apart, or lose two packets of a hundred, are there: nobody takes over from another one.
func TestSlowRoutes(t *testing.T) {
	nightly.Only(t, "TestClusterRoutes has leaders that change, and a minute beside slow routes takes minutes")
	t.Parallel()
	g := newGray(t, nil)
	t.Run("far", func(t *testing.T) {
		g.suffer(t, "far", func() (relief func()) {
			g.ways.Delay(100 * time.Millisecond)
			return func() { g.ways.Delay(0) }
		})
	})
	t.Run("lossy", func(t *testing.T) {
		g.suffer(t, "lossy", func() (relief func()) {
			g.ways.Lose(0.02)
			return func() { g.ways.Lose(0) }
		})
	})
}

// A node that has a fifth of a processor, for 20 of each 100 ms, is slow and not lost.
func TestSlowProcessor(t *testing.T) {
	nightly.Only(t, "TestClusterCalm has nodes that stall, and a minute beside a slow one takes minutes")
	t.Parallel()
	g := newGray(t, []string{"", "", ""})
	g.each(t, func(t *testing.T, p *testenv.Process) (relief func()) {
		return pqd.Throttle(t, p, 0.2, 100*time.Millisecond)
	})
}
