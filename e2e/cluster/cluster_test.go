package cluster_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// troubles are all that happen.
var troubles = []string{"SIGKILL of the active node", "SIGTERM of the active node", "SIGKILL of a follower", "SIGSTOP of the active node", "SIGKILL of two", "a rolling restart", "pq cluster step-down", pqd.Replacement}

// newClusterCampaign is one with three nodes, to which things happen in the order of
// troubles.
func newClusterCampaign(t *testing.T) *pqd.Campaign {
	next := 0
	return newCampaignOf(t, func(*rand.Rand) string {
		next++
		return troubles[(next-1)%len(troubles)]
	})
}

// newCampaignOf is one with three nodes, to which happens what choose says.
func newCampaignOf(t *testing.T, choose func(*rand.Rand) string) *pqd.Campaign {
	nodes := testenv.NewNodes(t)
	c := &pqd.Campaign{
		URL: nodes.URL(), Random: pqd.Seeded(t), Faults: make(map[string]int),
		Attempt: 10 * time.Second, // of a machine on which three pqd and others sync to one disk
	}
	x := &pqd.NodeFaults{Nodes: nodes, Random: c.Random}
	c.Fault = func(t testing.TB) string {
		what := x.Happen(t, choose(c.Random))
		c.Move(nodes.URL()) // one of them may have another address now
		return what
	}
	return c
}

// Three pqd keep the store together. However one of them ends under load, nothing
// acknowledged is lost, nothing comes twice, no lease overlaps another, nothing is passed
// over.
func TestClusterUnderLoad(t *testing.T) {
	nightly.Only(t, "TestStepDown and TestSilentNode have a takeover each")
	t.Parallel()
	c := newClusterCampaign(t)
	c.Long(t, "long", 4, 25, 15, 50)
	t.Logf("faults: %v", c.Faults)
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
	nc, err := nats.Connect(nodes.Active(t, silent).URL, nats.Timeout(testenv.Patience()))
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
		if reply, err := nc.Request("pq.jobs.push.1", []byte("x"), testenv.Times(5*time.Second)); err != nil || len(reply.Header) > 0 {
			answered = 0
		}
		if took := time.Since(paused); took > silentLimit() {
			t.Fatalf("%s after a node fell silent, requests are lost", took)
		}
	}
}

// silentLimit is far above what the nodes need, and below the NATS server's own patience
// with a connection.
func silentLimit() time.Duration { return testenv.Times(55 * time.Second) }

// TestClusterCampaign is TestClusterUnderLoad for as long as -pq.ops says, with all
// troubles.
func TestClusterCampaign(t *testing.T) {
	t.Parallel()
	if *pqd.Ops == 0 {
		t.Skip("no -pq.ops")
	}
	c := newClusterCampaign(t)
	for done, round := 0, 0; done < *pqd.Ops && !t.Failed(); round++ {
		const workers, steps = 16, 500
		done += c.Long(t, "r"+strings.Repeat("x", round), workers, steps, c.Moments(len(troubles), workers*steps)...)
		t.Logf("%d operations, faults: %v", done, c.Faults)
	}
}

// The session of docs/cluster.md. Its nodes have other addresses, and the test starts
// them and kills the active one itself. The gap that the session prints is that of the test's
// clock.
func TestClusterPage(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewNodes(t)
	active := nodes.Active(t)
	follower := nodes.All[slices.IndexFunc(nodes.All, func(p *testenv.Process) bool { return p != active })]
	shown := strings.NewReplacer(
		"nats://127.0.1.1:4222,nats://127.0.1.2:4222,nats://127.0.1.3:4222", nodes.URL(), "http://127.0.1.2:8622", follower.HTTP)
	terminal := follower.Terminal(t)
	var killed time.Time
	timed := 0
	for _, step := range testenv.Steps(t, clusterPage) {
		if strings.HasPrefix(step.Command, "kill -9 ") {
			killed = time.Now()
			active.Kill(t)
			continue
		}
		step.Command = shown.Replace(step.Command)
		documented, isTimed := gapOf(t, step.Output)
		step.Output = gapLine.ReplaceAllString(step.Output, "real …")
		began := time.Now()
		printed := terminal.Run(t, step)
		if !isTimed {
			continue
		}
		timed++
		gap, found := gapOf(t, printed)
		if took := time.Since(began); !found || gap > took {
			t.Errorf("%s: the session printed a gap of %s, by the clock it took %s, %s after the kill:\n%s", step.Where, gap, took, began.Sub(killed), printed)
		}
		if documented < 50*time.Millisecond || documented > 2*time.Second {
			t.Errorf("%s shows a gap of %s, which is none that a takeover has", step.Where, documented)
		}
		t.Logf("%s: no push was acknowledged for %s", step.Where, gap)
	}
	if timed != 1 {
		t.Errorf("%s prints %d gaps, expected one", clusterPage, timed)
	}
	terminal.Close(t)
}

// gapLine is what bash's time prints of a command.
var gapLine = regexp.MustCompile(`(?m)^real\s+(\d+)m([\d.]+)s$`)

// gapOf returns the time that a session prints, if it prints one.
func gapOf(t testing.TB, printed string) (gap time.Duration, found bool) {
	t.Helper()
	m := gapLine.FindStringSubmatch(printed)
	if m == nil {
		return 0, false
	}
	gap, err := time.ParseDuration(m[1] + "m" + m[2] + "s")
	if err != nil {
		t.Fatal(err)
	}
	return gap, true
}

const clusterPage = "../../docs/cluster.md"
