//go:build fdb

package stores_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

var flagHistories = flag.Int("pq.histories", 20, "queues whose histories TestHistoriesOfSeveralBridges judges")

// Three bridges keep every guarantee while one of them, all of them, or the process of the cluster, ends or is paused:
// nothing acknowledged is lost, nothing comes twice, no lease overlaps another, nothing is passed over.
func TestHistoriesOfSeveralBridges(t *testing.T) {
	nightly.Only(t, "bridge/internal/simulation has three bridges beside faults")
	const queues, workers, steps, faults = 20, 4, 20, 5 // of a round
	cluster := fdbtest.New(t, 1)
	server := testenv.NATS(t)
	x := &threeBridges{cluster: cluster, bridges: bridgesOn(t, cluster, server, 3)}
	c := &pqd.Campaign{
		URL: server.URL(), Random: pqd.Seeded(t), Faults: make(map[string]int), Promises: pqd.AllPromises,
		Attempt: 10 * time.Second, // a cluster may need half of that to recover
	}
	c.Fault = func(t testing.TB) string { return x.happen(t, c) }
	operations := 0
	for c.Queues < *flagHistories && !t.Failed() {
		h := c.Begin(t, fmt.Sprint("round-", c.Queues), queues, workers)
		for _, w := range h.Workers {
			w.Vanishes = true
		}
		c.Run(t, h, steps, c.Moments(faults, queues*workers*steps/2))
		for _, one := range h.End() {
			testenv.Judge(t, one, history.Several)
			operations += len(one)
		}
		t.Logf("%d histories", c.Queues)
	}
	t.Logf("%d histories with %d operations; faults: %v", c.Queues, operations, c.Faults)
	stopAll(t, cluster, x.bridges)
}

// threeBridges are those of one store, with what happens to them.
type threeBridges struct {
	cluster *fdbtest.Cluster
	bridges []*testenv.Process
}

// happen has something go wrong, and says what.
func (x *threeBridges) happen(t testing.TB, c *pqd.Campaign) string {
	one, process := x.bridges[c.Random.IntN(len(x.bridges))], x.cluster.Processes[0]
	switch c.Random.IntN(6) {
	case 0:
		one.Kill(t)
		c.Moment()
		one.Start(t)
		return "SIGKILL of a bridge"
	case 1:
		one.Stop(t)
		one.Start(t)
		return "SIGTERM of a bridge"
	case 2:
		one.Pause(t)
		c.Moment()
		one.Resume(t)
		return "SIGSTOP of a bridge"
	case 3:
		for _, p := range x.bridges {
			p.Kill(t)
		}
		for _, p := range x.bridges {
			p.Start(t)
		}
		return "SIGKILL of all bridges"
	case 4:
		process.Kill(t)
		process.Start(t)
		return "SIGKILL of fdbserver"
	}
	process.Pause(t)
	c.Moment()
	process.Resume(t)
	return "SIGSTOP of fdbserver"
}
