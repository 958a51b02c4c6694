package faults_test

import (
	"cmp"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// Each time of a schedule fires once, however often pqd is killed.
func TestSchedulesBesideKills(t *testing.T) {
	nightly.Only(t, "fdbpq has schedules through crashes")
	t.Parallel()
	p := testenv.Daemon(t)
	nc := p.Connect(t, nats.MaxReconnects(-1))
	s := pqd.NewSchedules(t, pqd.Seeded(t), func() *nats.Conn { return nc })
	for range cmp.Or(*pqd.Kills, 2) {
		s.Await()
		s.Happen("SIGKILL", func() {
			p.Kill(t)
			p.Start(t)
		})
	}
	s.Judge()
	p.Stop(t)
}
