package pqd

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// NodeFaults has something happen to nodes that keep a store together, and waits until all
// of them run again.
type NodeFaults struct {
	Nodes  *testenv.Nodes
	Random *rand.Rand
	Hit    []*testenv.Process // to which something has happened last

	Stopped time.Duration // how long a stopped node stays so once another one is active
}

// Faults of the node that leads the log, which is not the active one, and of a node that is both.
const (
	LeaderKilled  = "SIGKILL of the log's leader"
	LeaderStopped = "SIGSTOP of the log's leader"
	BothKilled    = "SIGKILL of the active node, which leads the log"
	BothStopped   = "SIGSTOP of the active node, which leads the log"
)

// Replacement is the loss of a node for good. A new one takes its place, and the lost one comes back nevertheless.
const Replacement = "pq cluster replace, and the return of the lost node"

// Prepare makes the node that leads the log the active one, or another one the active one, if a fault is about that.
// Soon behind that the active node hands the log on.
func (x *NodeFaults) Prepare(t testing.TB, what string) {
	t.Helper()
	switch what {
	case LeaderKilled, LeaderStopped:
		testenv.Await(t, "another node than the active one leads the log", func() bool {
			leader := x.Leader()
			return leader != nil && leader.Running() && leader != x.Nodes.Active(t)
		})
	case BothKilled, BothStopped:
		for leader := x.Leader(); leader != x.Nodes.Active(t); leader = x.Leader() {
			i := slices.IndexFunc(x.Nodes.All, func(p *testenv.Process) bool { return p != leader && p != x.Nodes.Active(t) })
			away := x.Nodes.All[i]
			away.Kill(t) // so only the leader can follow, once the others know
			x.StepDown(t)
			away.Start(t)
		}
	}
}

// StepDown has the active node hand over.
func (x *NodeFaults) StepDown(t testing.TB) {
	t.Helper()
	nc, err := nats.Connect(x.Nodes.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := client.New(nc, client.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.StepDown(context.Background(), ""); err != nil {
		t.Fatal(err)
	}
}

// Leader is the node whose NATS server leads the log, by what all of them have logged; nil if none has.
func (x *NodeFaults) Leader() (leader *testenv.Process) {
	latest := ""
	for _, p := range x.Nodes.All {
		for line := range strings.Lines(p.Log()) {
			// A line begins with its time.
			if strings.Contains(line, "new stream leader for 'PQ_CLUSTER >") && line > latest {
				latest, leader = line, p
			}
		}
	}
	return leader
}

// stay lets a node stay stopped for as long as Stopped says.
func (x *NodeFaults) stay(t testing.TB) {
	select {
	case <-time.After(x.Stopped):
	case <-t.Context().Done():
	}
}

// Happen does what is named, and says it.
func (x *NodeFaults) Happen(t testing.TB, what string) string {
	active := x.Nodes.Active(t)
	others := slices.DeleteFunc(slices.Clone(x.Nodes.All), func(p *testenv.Process) bool { return p == active })
	follower := others[x.Random.IntN(len(others))]
	x.Hit = []*testenv.Process{active}
	switch what {
	case "SIGKILL of the active node", BothKilled:
		active.Kill(t)
		x.Nodes.Active(t, active)
		active.Start(t)
	case "SIGKILL of a follower":
		x.Hit[0] = follower
		follower.Kill(t)
		follower.Start(t)
	case "SIGKILL of two":
		x.Hit = append(x.Hit, follower)
		active.Kill(t)
		follower.Kill(t)
		active.Begin(t)
		follower.Start(t)
		active.AwaitReady(t)
	case "SIGKILL of all":
		x.Hit = x.Nodes.All
		for _, p := range x.Nodes.All {
			p.Kill(t)
		}
		for _, p := range x.Nodes.All {
			p.Begin(t)
		}
		for _, p := range x.Nodes.All {
			p.AwaitReady(t)
		}
	case "SIGTERM of the active node":
		active.Stop(t)
		x.Nodes.Active(t, active)
		active.Start(t)
	case "SIGTERM of a follower":
		x.Hit[0] = follower
		follower.Stop(t)
		follower.Start(t)
	case "a rolling restart":
		x.Hit = nil
		for _, p := range x.Nodes.All {
			p.Stop(t)
			p.Start(t)
		}
	case "pq cluster step-down":
		x.Hit = nil
		x.StepDown(t)
		x.Nodes.Active(t) // the same one again, where its successor is too slow
	case LeaderKilled, LeaderStopped:
		leader := x.Leader()
		if leader == nil {
			t.Fatal("no node has logged that it leads the log")
		}
		x.Hit[0] = leader
		if what == LeaderKilled {
			leader.Kill(t)
			x.Nodes.Active(t, leader)
			leader.Start(t)
			break
		}
		leader.Pause(t)
		x.stay(t)
		leader.Resume(t)
	case "SIGSTOP of the active node", BothStopped:
		active.Pause(t)
		x.Nodes.Active(t, active)
		x.stay(t)
		active.Resume(t)
	case Replacement:
		x.Hit[0] = []*testenv.Process{active, follower}[x.Random.IntN(2)]
		x.replace(t, x.Hit[0], x.Random.IntN(2) == 0)
	default:
		t.Fatalf("what is %q?", what)
	}
	return what
}
