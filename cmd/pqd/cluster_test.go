package main_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// nodeFaults has something happen to nodes that keep a store together, and waits until all
// of them run again.
type nodeFaults struct {
	nodes  *testenv.Nodes
	random *rand.Rand
}

// happen does what is named, and says it.
func (x *nodeFaults) happen(t testing.TB, what string) string {
	active := x.nodes.Active(t)
	others := slices.DeleteFunc(slices.Clone(x.nodes.All), func(p *testenv.Process) bool { return p == active })
	follower := others[x.random.IntN(len(others))]
	switch what {
	case "SIGKILL of the active node":
		active.Kill(t)
		x.nodes.Active(t, active)
		active.Start(t)
	case "SIGKILL of a follower":
		follower.Kill(t)
		follower.Start(t)
	case "SIGKILL of two":
		active.Kill(t)
		follower.Kill(t)
		active.Begin(t)
		follower.Start(t)
		active.AwaitReady(t)
	case "SIGTERM of the active node":
		active.Stop(t)
		x.nodes.Active(t, active)
		active.Start(t)
	case "SIGSTOP of the active node":
		active.Pause(t)
		x.nodes.Active(t, active)
		active.Resume(t)
	default:
		t.Fatalf("what is %q?", what)
	}
	return what
}

// troubles are all that happen.
var troubles = []string{"SIGKILL of the active node", "SIGTERM of the active node", "SIGKILL of a follower", "SIGSTOP of the active node", "SIGKILL of two"}

// newClusterCampaign is one with three nodes, to which things happen in the order of
// troubles.
func newClusterCampaign(t *testing.T) *campaign {
	nodes := testenv.NewNodes(t)
	c := &campaign{
		url: nodes.URL(), random: seeded(t), faults: make(map[string]int),
		attempt: 10 * time.Second, // of a machine on which three pqd and others sync to one disk
	}
	x := &nodeFaults{nodes: nodes, random: c.random}
	next := 0
	c.fault = func(t testing.TB) string {
		next++
		return x.happen(t, troubles[(next-1)%len(troubles)])
	}
	return c
}

// Three pqd keep the store together. However one of them ends under load, nothing
// acknowledged is lost, nothing comes twice, no lease overlaps another, nothing is passed
// over.
func TestClusterUnderLoad(t *testing.T) {
	t.Parallel()
	c := newClusterCampaign(t)
	c.long(t, "long", 4, 25, 15, 50)
	t.Logf("faults: %v", c.faults)
}

// A node that falls silent without closing its connections, as one without power does, gets
// no requests any more once another one is active: all of them are answered.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewNodes(t)
	silent := nodes.Active(t)
	silent.Pause(t)
	defer silent.Resume(t)
	paused := time.Now()
	nc, err := nats.Connect(nodes.Active(t, silent).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	defer func() {
		t.Logf("all requests were answered %s after the node fell silent", time.Since(paused).Round(time.Millisecond))
	}()
	// The server chooses the node of each request at random.
	const enough = 15
	for answered := 0; answered < enough; answered++ {
		if reply, err := nc.Request("pq.jobs.push.1", []byte("x"), 5*time.Second); err != nil || len(reply.Header) > 0 {
			answered = 0
		}
		if took := time.Since(paused); took > silentLimit {
			t.Fatalf("%s after a node fell silent, requests are lost", took)
		}
	}
}

// silentLimit is far above what the nodes need, and below the NATS server's own patience
// with a connection.
const silentLimit = 55 * time.Second

// TestClusterCampaign is TestClusterUnderLoad for as long as -pq.ops says, with all
// troubles.
func TestClusterCampaign(t *testing.T) {
	t.Parallel()
	if *flagOps == 0 {
		t.Skip("no -pq.ops")
	}
	c := newClusterCampaign(t)
	for done, round := 0, 0; done < *flagOps && !t.Failed(); round++ {
		const workers, steps = 16, 500
		done += c.long(t, "r"+strings.Repeat("x", round), workers, steps, c.moments(len(troubles), workers*steps)...)
		t.Logf("%d operations, faults: %v", done, c.faults)
	}
}

// gap pushes one item after the other while something happens, and returns the longest
// time without an acknowledgement.
func gap(t *testing.T, nodes *testenv.Nodes, queue string, happens func()) time.Duration {
	t.Helper()
	nc, err := nats.Connect(nodes.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	over := make(chan struct{})
	var pushing sync.WaitGroup
	var longest time.Duration
	begun := make(chan struct{})
	pushing.Go(func() {
		start := sync.OnceFunc(func() { close(begun) })
		for last, n := time.Now(), 0; ; n++ {
			reply, err := nc.Request("pq."+queue+".push.1", []byte("x"), time.Second)
			if err == nil && len(reply.Header) == 0 {
				longest = max(longest, time.Since(last))
				last = time.Now()
				start()
				select {
				case <-over:
					return
				default:
				}
			}
			if time.Since(last) > testenv.Patience {
				t.Errorf("no push was acknowledged for %s", testenv.Patience)
				start()
				return
			}
		}
	})
	<-begun
	happens()
	close(over)
	pushing.Wait()
	return longest
}

// How long clients wait for a takeover: printed, because it depends on the machine.
func TestClusterGap(t *testing.T) {
	t.Parallel()
	if *flagOps == 0 {
		t.Skip("no -pq.ops")
	}
	nodes := testenv.NewNodes(t)
	x := &nodeFaults{nodes: nodes, random: seeded(t)}
	for _, what := range troubles[:2] {
		t.Logf("%s: %s without an acknowledgement", what, gap(t, nodes, "q", func() { x.happen(t, what) }).Round(time.Millisecond))
	}
	t.Logf("a rolling restart: %s without an acknowledgement", gap(t, nodes, "q", func() {
		for _, p := range nodes.All {
			p.Stop(t)
			p.Start(t)
		}
	}).Round(time.Millisecond))
}

// The session of docs/cluster.md. Its nodes have other addresses, and the test starts
// them and kills the active one itself.
func TestClusterPage(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewNodes(t)
	active := nodes.Active(t)
	follower := nodes.All[slices.IndexFunc(nodes.All, func(p *testenv.Process) bool { return p != active })]
	shown := strings.NewReplacer(
		"nats://127.0.1.1:4222,nats://127.0.1.2:4222,nats://127.0.1.3:4222", nodes.URL(), "http://127.0.1.2:8622", follower.HTTP)
	terminal := follower.Terminal(t)
	for _, step := range testenv.Steps(t, clusterPage) {
		if strings.HasPrefix(step.Command, "kill -9 ") {
			active.Kill(t)
			continue
		}
		step.Command = shown.Replace(step.Command)
		terminal.Run(t, step)
	}
	terminal.Close(t)
}

const clusterPage = "../../docs/cluster.md"
