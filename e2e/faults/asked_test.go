package faults_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// Each caller that waits for its item hears how that ended, and hears the truth, while callers, workers and pqd are killed.
func TestResultsBesideKills(t *testing.T) {
	nightly.Only(t, "the model of fdbpq has results beside faults, and client lost answers")
	t.Parallel()
	n, kills := cmp.Or(*pqd.Ops, 5_000), cmp.Or(*pqd.Kills, 4)
	random := pqd.Seeded(t)
	p := testenv.Daemon(t)
	asked := pqd.NewAsked(t, p.URL, n)
	took := asked.Run(random, 64, 16, kills, func(int) {
		p.Kill(t)
		p.Start(t)
	})
	t.Logf("%d callers were answered in %s beside %d kills of pqd", n, took.Round(time.Millisecond), kills)
	asked.Judge()
	p.Stop(t)
}
