package main_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// How long clients wait for a hand-over or a takeover: printed, because it depends on the
// machine.
func TestClusterGap(t *testing.T) {
	t.Parallel()
	if *flagOps == 0 {
		t.Skip("no -pq.ops")
	}
	nodes := testenv.NewNodes(t, "PQ_LOG_LEVEL=debug") // it shows which node leads the log
	x := &nodeFaults{nodes: nodes, random: seeded(t)}
	for _, what := range []string{
		"SIGTERM of the active node", "pq cluster step-down", "SIGTERM of a follower", "a rolling restart",
		"SIGKILL of a follower", "SIGKILL of the active node", "SIGKILL of the log's leader", "SIGKILL of two",
	} {
		var gaps []time.Duration
		for range max(3, *flagOps/gapEvery) {
			gaps = append(gaps, gap(t, nodes, "q", func() { x.happen(t, what) }).Round(time.Millisecond))
		}
		slices.Sort(gaps)
		last := len(gaps) - 1
		t.Logf("%s, %d times, without an acknowledgement: p50 %s, p90 %s, at most %s", what, len(gaps), gaps[last/2], gaps[last*9/10], gaps[last])
	}
}

// gapEvery is how many operations of a campaign stand for one measured gap of each kind.
const gapEvery = 2000

// gap pushes one item after the other while something happens, and returns the longest
// time without an acknowledgement.
func gap(t *testing.T, nodes *testenv.Nodes, queue string, happens func()) time.Duration {
	t.Helper()
	nc, err := nats.Connect(nodes.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := client.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var pushing sync.WaitGroup
	var longest time.Duration
	begun := make(chan struct{})
	pushing.Go(func() {
		start := sync.OnceFunc(func() { close(begun) })
		defer start()
		for last := time.Now(); ; {
			_, err := c.Queue(queue).Push(ctx, []byte("x"))
			silence := time.Since(last)
			longest = max(longest, silence)
			switch {
			case err == nil:
				last = time.Now()
				start()
			case ctx.Err() != nil:
				return
			case silence > testenv.Patience:
				t.Errorf("no push was acknowledged for %s: %v", silence, err)
				return
			}
		}
	})
	<-begun
	happens()
	// What happened may still be felt.
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	stop()
	pushing.Wait()
	return longest
}

// stepDown has the active node hand over.
func (x *nodeFaults) stepDown(t testing.TB) {
	t.Helper()
	nc, err := nats.Connect(x.nodes.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	c, err := client.New(nc, client.Timeout(testenv.Patience))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.StepDown(context.Background(), ""); err != nil {
		t.Fatal(err)
	}
}

// leader is the node whose NATS server leads the log, by what all of them have logged.
func (x *nodeFaults) leader(t testing.TB) (leader *testenv.Process) {
	t.Helper()
	latest := ""
	for _, p := range x.nodes.All {
		for line := range strings.Lines(p.Log()) {
			// A line begins with its time.
			if strings.Contains(line, "new stream leader for 'PQ_CLUSTER >") && line > latest {
				latest, leader = line, p
			}
		}
	}
	if leader == nil {
		t.Fatal("no node has logged that it leads the log")
	}
	return leader
}
