//go:build fdb

package stores_test

import (
	"cmp"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// Of the items that many callers push and others pop, none is lost and none comes twice, while three bridges and the
// process of the cluster are killed: five times bridges, by turns, for two of the cluster.
func TestCallersOfSeveralBridges(t *testing.T) {
	nightly.Only(t, "TestHistoriesOfSeveralBridges kills the same processes, and judges more")
	n, kills := cmp.Or(*pqd.Ops, 20_000), cmp.Or(*pqd.Kills, 7)
	random := pqd.Seeded(t)
	cluster := fdbtest.New(t, 1)
	server := testenv.NATS(t)
	bridges := bridgesOn(t, cluster, server, 3)
	queue := func() *client.Queue {
		nc := server.Connect(t, nats.MaxReconnects(-1), nats.ReconnectWait(pqd.ReconnectWait))
		c, err := client.New(nc, client.MixPriorities(), client.Timeout(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return c.Queue("jobs")
	}
	callers := pqd.NewCallers(t, queue(), n)
	var pops sync.WaitGroup
	for range 8 {
		pops.Go(callers.Pop)
	}
	ofBridges, ofCluster := 0, 0
	took := callers.Push(random, 64, kills, func(i int) {
		if i%7 == 2 || i%7 == 5 {
			cluster.Processes[0].Kill(t)
			cluster.Processes[0].Start(t)
			ofCluster++
			return
		}
		p := bridges[ofBridges%len(bridges)]
		p.Kill(t)
		p.Start(t)
		ofBridges++
	})
	pops.Wait()
	succeeded := callers.Judge()
	t.Logf("%d of %d pushes succeeded in %s beside %d kills of bridges and %d of fdbserver", succeeded, n, took.Round(time.Second), ofBridges, ofCluster)
	if succeeded < n*9/10 {
		t.Error("expected most pushes to succeed")
	}
	stopAll(t, cluster, bridges)
}
