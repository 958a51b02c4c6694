package cluster_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// A node with another address takes the place of one that is lost: it is not ready until
// it has a replica of the log, and then the loss of one more node loses nothing.
func TestReplaceNode(t *testing.T) {
	t.Parallel()
	const password = "a password of 16 or more"
	nodes := testenv.NewNodes(t, "NATS_USER=pq", "NATS_PASSWORD="+password)
	login := nats.UserInfo("pq", password)
	active := nodes.Active(t)
	at := slices.IndexFunc(nodes.All, func(p *testenv.Process) bool { return p != active })
	lost := nodes.All[at]
	nc := active.Connect(t, login, nats.MaxReconnects(-1))
	pqd.AskServing(t, nc, "pq.jobs.push.1", "before")
	c, err := client.New(nc, client.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	refused := func(old, by, says string) {
		t.Helper()
		var e *client.Error
		if _, err := c.Replace(t.Context(), old, by); !errors.As(err, &e) || e.Code != 400 || !strings.Contains(e.Description, says) {
			t.Errorf("replace %s by %s: %v, expected 400 and %q", old, by, err, says)
		}
	}
	refused(lost.Node(), active.Node(), "runs")
	lost.Kill(t)
	by := nodes.Successor(t, lost)
	by.Begin(t)
	by.AwaitLog(t, "this node has no replica of the log")
	by.AwaitLog(t, "pq cluster replace <lost node> "+by.Node())

	refused(by.Node(), active.Node(), "runs")
	refused("", by.Node(), "the names of two nodes")
	awaitSilence(t, c, lost.Node())
	refused(lost.Node(), "nobody", "does not run")
	done, err := c.Replace(t.Context(), lost.Node(), by.Node())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, p := range nodes.All {
		want = append(want, p.Node())
	}
	slices.Sort(want)
	if !slices.Equal(done.Replicas, want) || done.Old != lost.Node() || done.New != by.Node() {
		t.Errorf("answered %+v, expected replicas on %s", done, want)
	}
	by.AwaitReady(t)
	if again, err := c.Replace(t.Context(), lost.Node(), by.Node()); err != nil || !slices.Equal(again.Replicas, want) {
		t.Errorf("replaced again: %+v, %v", again, err)
	}
	pqd.AskServing(t, nc, "pq.jobs.push.2", "between")
	active.Kill(t)
	servesAll(t, nodes, active, login, "before", "between")
}

// A request to replace a node is repeated while another node is away whose name nobody has heard
// since the others started: nobody else is removed, and that one comes back.
func TestReplaceNodeAgain(t *testing.T) {
	nightly.Only(t, "TestReplaceNode replaces one node")
	t.Parallel()
	nodes := testenv.NewNodes(t)
	active := nodes.Active(t)
	others := slices.DeleteFunc(slices.Clone(nodes.All), func(p *testenv.Process) bool { return p == active })
	lost, away := others[0], others[1]
	pqd.AskServing(t, active.Connect(t), "pq.jobs.push.1", "kept")
	lost.Kill(t)
	by := nodes.Successor(t, lost)
	by.Begin(t)
	by.AwaitLog(t, "this node has no replica of the log")
	replaced := func() (replicas []string) {
		t.Helper()
		c, err := client.New(nodes.Active(t).Connect(t), client.Timeout(testenv.Patience()))
		if err != nil {
			t.Fatal(err)
		}
		testenv.Await(t, "the node is known to be lost, and replaced", func() bool {
			done, err := c.Replace(t.Context(), lost.Node(), by.Node())
			if err == nil {
				replicas = done.Replicas
			}
			return err == nil
		})
		return replicas
	}
	replaced()
	by.AwaitReady(t)
	for _, p := range []*testenv.Process{away, active} {
		p.Stop(t)
		p.Change("PQ_CLUSTER=" + by.Setting("PQ_CLUSTER"))
		p.Start(t)
	}
	settledClaims(t, active, away, by)
	away.Kill(t)
	for _, p := range []*testenv.Process{by, active} {
		p.Kill(t)
	}
	for _, p := range []*testenv.Process{by, active} {
		p.Begin(t)
	}
	if all := replaced(); !slices.Contains(all, by.Node()) {
		t.Errorf("the log is on %s, expected %s among them", all, by.Node())
	}
	away.Start(t)
	by.Kill(t)
	servesAll(t, nodes, by, nats.Name(""), "kept")
}

// Nodes are lost for good one after the other under load, new ones take their places, and each lost one is started again
// nevertheless: it serves nothing, and the next one can be replaced as well.
func TestReplacementsUnderLoad(t *testing.T) {
	nightly.Only(t, "TestReplaceNode replaces a node, and two replacements take a minute and a half")
	t.Parallel()
	c := newCampaignOf(t, func(*rand.Rand) string { return pqd.Replacement })
	c.Long(t, "replaced", 4, 200, 50, 250)
	t.Logf("faults: %v", c.Faults)
}

// A node that was replaced is started again with its old disk when no NATS server remembers by itself any more that it was
// removed, and ends together with a node that counts. Among the servers that agree on streams it would be missed then: with
// two of four left, none could agree to give the place of the other one to a new node.
func TestReturnedNodeIsNotMissed(t *testing.T) {
	nightly.Only(t, "TestReplaceNode replaces a node, and two replacements take a minute")
	t.Parallel()
	x := &pqd.NodeFaults{Nodes: testenv.NewNodes(t), Random: pqd.Seeded(t)}
	pqd.AskServing(t, x.Nodes.Active(t).Connect(t), "pq.jobs.push.1", "kept")
	places := x.LoseBoth(t)
	places[0].Kill(t)
	servesAll(t, x.Nodes, places[0], nats.Name(""), "kept")
}

// A node that was replaced, with an empty disk, is a new one: it gets the place of the next one that is lost.
func TestReplacedNodeGetsAnotherPlace(t *testing.T) {
	nightly.Only(t, "TestReplacedNodeComesBack has what decides about it, and two replacements take a minute")
	t.Parallel()
	x := &pqd.NodeFaults{Nodes: testenv.NewNodes(t), Random: pqd.Seeded(t)}
	pqd.AskServing(t, x.Nodes.Active(t).Connect(t), "pq.jobs.push.1", "kept")
	places := x.Rotate(t)
	places[0].Kill(t)
	servesAll(t, x.Nodes, places[0], nats.Name(""), "kept")
}

// TestClusterReplacements is TestReplacementsUnderLoad for as long as -pq.ops says, beside takeovers.
func TestClusterReplacements(t *testing.T) {
	t.Parallel()
	if *pqd.Ops == 0 {
		t.Skip("no -pq.ops")
	}
	c := newCampaignOf(t, func(random *rand.Rand) string {
		return []string{pqd.Replacement, "SIGKILL of the active node", "pq cluster step-down"}[random.IntN(3)]
	})
	for done, round := 0, 0; done < *pqd.Ops && !t.Failed(); round++ {
		const workers, steps, faults = 8, 250, 4
		done += c.Long(t, "r"+strings.Repeat("x", round), workers, steps, c.Moments(faults, workers*steps)...)
		t.Logf("%d operations, faults: %v", done, c.Faults)
	}
}

// awaitSilence waits until a node counts as lost. One that was active is silent as soon as another
// one is, and lost only later.
func awaitSilence(t *testing.T, c *client.Client, node string) {
	t.Helper()
	testenv.AwaitAnswer(t, node+" is silent", func(ctx context.Context) bool {
		all, err := c.Cluster(ctx)
		return err == nil && slices.ContainsFunc(all.Members, func(m client.Member) bool { return m.Node == node && m.Role == "silent" && m.Heard >= 10 })
	})
}

// servesAll looks whether the nodes without the lost one have these items and no others.
func servesAll(t *testing.T, nodes *testenv.Nodes, lost *testenv.Process, login nats.Option, items ...string) {
	t.Helper()
	nc := nodes.Active(t, lost).Connect(t, login, nats.MaxReconnects(-1))
	for _, want := range items {
		if got := string(pqd.AskServing(t, nc, "pq.jobs.pop.min", "").Data); got != want {
			t.Errorf("popped %q, expected %q", got, want)
		}
	}
	if m := pqd.AskServing(t, nc, "pq.jobs.pop.min", ""); m.Header.Get("Status") != "404" {
		t.Errorf("popped %q, expected no more items", m.Data)
	}
}

// A node with a name that does not depend on its address comes back at another one with
// nothing on its disk, and nobody has to say so.
func TestNodeMovesUnderItsName(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewNodesAt(t, func(hosts []string) []string {
		return []string{"PQ_CLUSTER=one=" + hosts[0] + ",two=" + hosts[1] + ",three=" + hosts[2]}
	})
	active := nodes.Active(t)
	at := slices.IndexFunc(nodes.All, func(p *testenv.Process) bool { return p != active })
	pqd.AskServing(t, active.Connect(t), "pq.jobs.push.1", "kept")
	nodes.All[at].Kill(t)
	moved := nodes.Successor(t, nodes.All[at])
	moved.Begin(t)
	moved.AwaitReady(t)
	active.Kill(t)
	servesAll(t, nodes, active, nats.Name(""), "kept")
}
