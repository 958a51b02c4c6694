package pqd

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

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
}

// LeaderKilled is about a node that is not the active one.
const LeaderKilled = "SIGKILL of the log's leader"

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

// Happen does what is named, and says it.
func (x *NodeFaults) Happen(t testing.TB, what string) string {
	active := x.Nodes.Active(t)
	others := slices.DeleteFunc(slices.Clone(x.Nodes.All), func(p *testenv.Process) bool { return p == active })
	follower := others[x.Random.IntN(len(others))]
	x.Hit = []*testenv.Process{active}
	switch what {
	case "SIGKILL of the active node":
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
	case LeaderKilled:
		leader := x.Leader()
		if leader == nil {
			t.Fatal("no node has logged that it leads the log")
		}
		x.Hit[0] = leader
		leader.Kill(t)
		x.Nodes.Active(t, leader)
		leader.Start(t)
	case "SIGSTOP of the active node":
		active.Pause(t)
		x.Nodes.Active(t, active)
		active.Resume(t)
	default:
		t.Fatalf("what is %q?", what)
	}
	return what
}
