package faults_test

import (
	"cmp"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// What deliveries reserve, and what settlements correct, keeps the rate of cost, while workers and pqd are killed.
func TestBudgetBesideKills(t *testing.T) {
	nightly.Only(t, "the model of fdbpq has cost beside faults")
	t.Parallel()
	n, kills := cmp.Or(*pqd.Ops, 2_000), cmp.Or(*pqd.Kills, 4)
	random := pqd.Seeded(t)
	p := testenv.Daemon(t)
	b := pqd.NewBudget(t, p.URL, random, n)
	b.Run(random, 50, kills, func(int) {
		p.Kill(t)
		p.Start(t)
	})
	b.Judge()
	p.Stop(t)
}
