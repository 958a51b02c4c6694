package faults_test

import (
	"cmp"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// A job goes on where it was, however often its worker is killed, and pqd with it.
func TestJobGoesOnBesideKills(t *testing.T) {
	t.Parallel()
	workers, kills := cmp.Or(*pqd.Ops, 100), cmp.Or(*pqd.Kills, 1)
	random := pqd.Seeded(t)
	p := testenv.Daemon(t)
	job := pqd.Checkpoints{TB: t, URL: p.URL, Steps: 100, Random: random}
	job.Run(workers, kills, func(int) {
		p.Kill(t)
		p.Start(t)
	})
	p.Stop(t)
}
