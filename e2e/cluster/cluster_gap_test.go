package cluster_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// How long clients wait for a hand-over or a takeover, printed because it depends on the
// machine, and what they find afterwards: everything acknowledged, once, in order.
func TestClusterGap(t *testing.T) {
	t.Parallel()
	if *pqd.Ops == 0 {
		t.Skip("no -pq.ops")
	}
	for _, what := range []string{
		"SIGTERM of the active node", "pq cluster step-down", "SIGTERM of a follower", "a rolling restart",
		"SIGKILL of a follower", "SIGKILL of the active node", pqd.LeaderKilled, "SIGKILL of two",
		"SIGSTOP of the active node",
	} {
		t.Run(what, func(t *testing.T) { // one after the other: each has the machine for itself
			nodes := testenv.NewNodes(t, "PQ_LOG_LEVEL=debug") // it shows which node leads the log
			x := &pqd.NodeFaults{Nodes: nodes, Random: pqd.Seeded(t)}
			gaps := make(map[string][]time.Duration)
			pushed := pushes{times: make(map[int]int)}
			for range max(3, *pqd.Ops/gapEvery) {
				leader := x.Leader()
				for what == pqd.LeaderKilled && leader == nodes.Active(t) {
					x.StepDown(t)
					leader = x.Leader()
				}
				longest := pushed.gap(t, nodes, func() { x.Happen(t, what) }).Round(time.Millisecond)
				kind := what
				if what != pqd.LeaderKilled && slices.Contains(x.Hit, leader) {
					kind += ", which leads the log"
				}
				t.Logf("%s: %s", kind, longest)
				gaps[kind] = append(gaps[kind], longest)
			}
			for kind, gaps := range gaps {
				slices.Sort(gaps)
				last := len(gaps) - 1
				t.Logf("%s, %d times, without an acknowledgement: p50 %s, p90 %s, at most %s", kind, len(gaps), gaps[last/2], gaps[last*9/10], gaps[last])
			}
		})
	}
}

// gapEvery is how many operations of a campaign stand for one measured gap of each kind.
const gapEvery = 2000

// pushes are items that were pushed one after the other, by their numbers.
type pushes struct {
	acknowledged []bool
	times        map[int]int // how often each was popped
	popped       int         // this many are gone if they were acknowledged
}

// gap pushes items while something happens, and returns the longest time without an
// acknowledgement. Then it pops the items.
func (p *pushes) gap(t *testing.T, nodes *testenv.Nodes, happens func()) time.Duration {
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
	queue := c.Queue("q")
	ctx, stop := context.WithCancel(t.Context())
	var pushing sync.WaitGroup
	var longest time.Duration
	begun := make(chan struct{})
	pushing.Go(func() {
		start := sync.OnceFunc(func() { close(begun) })
		defer start()
		for last := time.Now(); ; {
			_, err := queue.Push(ctx, []byte(strconv.Itoa(len(p.acknowledged))))
			p.acknowledged = append(p.acknowledged, err == nil)
			silence := time.Since(last)
			longest = max(longest, silence)
			switch {
			case err == nil:
				last = time.Now()
				start()
			case ctx.Err() != nil:
				return
			case silence > testenv.Patience():
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
	p.pop(t, queue)
	return longest
}

// pop empties the queue: all items that were acknowledged are there once, in order. The
// others may come at any time, once.
func (p *pushes) pop(t *testing.T, queue *client.Queue) {
	t.Helper()
	last := -1
	for {
		items, err := queue.PopBatch(t.Context(), client.Min, client.MaxMany, client.Repeatable())
		if errors.Is(err, client.ErrEmpty) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			number, err := strconv.Atoi(string(item.Payload))
			if err != nil {
				t.Fatal(err)
			}
			if p.times[number]++; p.times[number] > 1 {
				t.Errorf("item %d was popped %d times", number, p.times[number])
			}
			if !p.acknowledged[number] {
				continue
			}
			if number < last {
				t.Errorf("item %d was popped behind item %d", number, last)
			}
			last = number
		}
	}
	for ; p.popped < len(p.acknowledged); p.popped++ {
		if p.acknowledged[p.popped] && p.times[p.popped] == 0 {
			t.Errorf("item %d was acknowledged and is lost", p.popped)
		}
	}
}
