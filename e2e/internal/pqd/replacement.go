package pqd

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// replace ends a node for good, and has a new one with nothing on its disk take its place, as docs/cluster.md says. Against
// the page the lost one is started again with its old disk, before the others get the list of nodes with the new one, or
// behind that: only nodes that have not been started since remember by themselves who was removed.
func (x *NodeFaults) replace(t testing.TB, lost *testenv.Process, toldFirst bool) {
	t.Helper()
	lost.Kill(t)
	by := x.succeed(t, lost)
	t.Logf("the others are told before %s comes back: %t", lost.Node(), toldFirst)
	if toldFirst {
		x.tell(t, by)
	}
	x.comeBack(t, lost, by)
	if !toldFirst {
		x.tell(t, by)
	}
}

// LoseBoth ends a node for good, and another one gets its place. When no server remembers by itself any more that it was
// removed, it is started again with its old disk, and as soon as it knows that another node has its place it is killed
// together with a node that counts. That one can be replaced as well. It returns those that have the two places.
func (x *NodeFaults) LoseBoth(t testing.TB) (places []*testenv.Process) {
	t.Helper()
	first := x.Nodes.All[x.Random.IntN(len(x.Nodes.All))]
	first.Kill(t)
	by := x.succeed(t, first)
	x.tell(t, by)
	first.Begin(t)
	awaitItsPlaceGone(t, first)
	second := x.other(by)
	if first.Running() {
		first.Kill(t)
	}
	second.Kill(t)
	return []*testenv.Process{by, x.succeed(t, second)}
}

// Rotate ends a node for good, and another one gets its place. Then one more is lost, and the first one, with nothing on its
// disk, gets that place. It returns the two.
func (x *NodeFaults) Rotate(t testing.TB) (places []*testenv.Process) {
	t.Helper()
	first := x.Nodes.All[x.Random.IntN(len(x.Nodes.All))]
	first.Kill(t)
	by := x.succeed(t, first)
	x.tell(t, by)
	second := x.other(by)
	second.Kill(t)
	first.Move(t.TempDir())
	first.Change("PQ_CLUSTER=" + strings.ReplaceAll(by.Setting("PQ_CLUSTER"), second.Setting("PQ_NODE"), first.Setting("PQ_NODE")))
	x.Nodes.All[slices.Index(x.Nodes.All, second)] = first
	t.Logf("%s takes the place of %s, with an empty disk", first.Node(), second.Node())
	first.Begin(t)
	first.AwaitLog(t, "this node has no replica of the log")
	x.giveAway(t, second, first)
	first.AwaitReady(t)
	return []*testenv.Process{by, first}
}

// other is a node, but not this one.
func (x *NodeFaults) other(than *testenv.Process) *testenv.Process {
	others := slices.DeleteFunc(slices.Clone(x.Nodes.All), func(p *testenv.Process) bool { return p == than })
	return others[x.Random.IntN(len(others))]
}

// succeed has a new node take the place of one that has ended.
func (x *NodeFaults) succeed(t testing.TB, lost *testenv.Process) (by *testenv.Process) {
	t.Helper()
	by = x.Nodes.Successor(t, lost)
	t.Logf("%s takes the place of %s", by.Node(), lost.Node())
	by.Begin(t)
	by.AwaitLog(t, "this node has no replica of the log")
	x.giveAway(t, lost, by)
	by.AwaitReady(t)
	return by
}

// giveAway gives the place of a lost node to another one. It is known to be lost after ten seconds.
func (x *NodeFaults) giveAway(t testing.TB, lost, by *testenv.Process) {
	t.Helper()
	c, done := connected(t, x.Nodes.URL())
	defer done()
	refusal := ""
	defer func() {
		if t.Failed() {
			t.Logf("the last answer to the request to replace %s by %s: %s", lost.Node(), by.Node(), refusal)
		}
	}()
	testenv.AwaitAnswer(t, by.Node()+" has the place of "+lost.Node(), func(ctx context.Context) bool {
		_, err := c.Replace(ctx, lost.Node(), by.Node())
		if err != nil {
			refusal = err.Error()
		}
		return err == nil
	})
}

// tell gives all other nodes the list of nodes that a new one has, one after the other. The new one is started anew as well,
// as for an upgrade, and last: then no server remembers any more who was removed.
func (x *NodeFaults) tell(t testing.TB, by *testenv.Process) {
	t.Helper()
	others := slices.DeleteFunc(slices.Clone(x.Nodes.All), func(p *testenv.Process) bool { return p == by })
	for _, p := range append(others, by) {
		p.Stop(t)
		p.Change("PQ_CLUSTER=" + by.Setting("PQ_CLUSTER"))
		p.Start(t)
	}
}

// comeBack starts a node that was replaced again, with its old disk and at its old address, while the active node dies. It
// says why it is not ready, or why it ends, and takes nothing over, though its name may come first.
func (x *NodeFaults) comeBack(t testing.TB, lost, by *testenv.Process) {
	t.Helper()
	lost.Begin(t)
	awaitStatus(t, by, lost, "does not count", func(m client.Member) bool {
		return !lost.Running() || strings.Contains(m.Reason, "no part of the log any more")
	})
	awaitItsPlaceGone(t, lost)
	active := x.Nodes.Active(t)
	active.Kill(t)
	testenv.Await(t, "a node that has its place serves", func() bool {
		staysOut(t, lost)
		return slices.ContainsFunc(x.Nodes.All, func(p *testenv.Process) bool {
			return p != active && strings.Contains(p.Page(t, "/readyz"), `"role": "active",`+"\n"+`  "status": "ok"`)
		})
	})
	active.Start(t)
	staysOut(t, lost)
	if lost.Running() {
		lost.Kill(t)
	}
}

// awaitItsPlaceGone waits until a node that was replaced says so, or ends with that reason.
func awaitItsPlaceGone(t testing.TB, lost *testenv.Process) {
	t.Helper()
	testenv.Await(t, "the node that was replaced says so", func() bool {
		return !lost.Running() || strings.Contains(lost.Page(t, "/readyz"), "another node has its place")
	})
	if lost.Running() {
		return
	}
	t.Logf("%s has ended by itself with exit code %d", lost.Node(), lost.AwaitEnd(t))
	lost.AwaitLog(t, "another node has the place of this one")
}

// staysOut expects of a node that was replaced that it neither serves nor says that it could.
func staysOut(t testing.TB, lost *testenv.Process) {
	t.Helper()
	page := lost.Page(t, "/readyz")
	if strings.Contains(page, `"role": "active"`) || strings.Contains(page, `"status": "ok"`) {
		t.Fatalf("%s was replaced, and /readyz of it says %s", lost.Node(), page)
	}
}

// awaitStatus waits until a node says something of another one.
func awaitStatus(t testing.TB, at, of *testenv.Process, what string, says func(client.Member) bool) {
	t.Helper()
	c, done := connected(t, at.URL) // the server prefers its own node
	defer done()
	testenv.AwaitAnswer(t, of.Node()+" "+what, func(ctx context.Context) bool {
		all, err := c.Cluster(ctx)
		return err == nil && slices.ContainsFunc(all.Members, func(m client.Member) bool { return m.Node == of.Node() && says(m) })
	})
}

// connected returns a client whose connection outlives the nodes that it is at, until done is called.
func connected(t testing.TB, url string) (c *client.Client, done func()) {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	if c, err = client.New(nc, client.Timeout(testenv.Patience())); err != nil {
		t.Fatal(err)
	}
	return c, nc.Close
}
