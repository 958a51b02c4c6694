//go:build fdb

package stores_test

import (
	"cmp"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// Several bridges keep one rate of cost, while they, workers and fdbserver are killed.
func TestBudgetOfSeveralBridges(t *testing.T) {
	nightly.Only(t, "TestBudgetBesideKills has one bridge, and the model of fdbpq cost on FoundationDB")
	n, kills := cmp.Or(*pqd.Ops, 2_000), cmp.Or(*pqd.Kills, 6)
	random := pqd.Seeded(t)
	cluster := fdbtest.New(t, 1)
	server := testenv.NATS(t)
	bridges := bridgesOn(t, cluster, server, 3)
	b := pqd.NewBudget(t, server.URL(), random, n)
	b.Run(random, 50, kills, func(i int) {
		if i%3 == 2 {
			cluster.Processes[0].Kill(t)
			cluster.Processes[0].Start(t)
			return
		}
		p := bridges[i%len(bridges)]
		p.Kill(t)
		p.Start(t)
	})
	b.Judge()
	stopAll(t, cluster, bridges)
}
