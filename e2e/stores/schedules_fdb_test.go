//go:build fdb

package stores_test

import (
	"cmp"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// Each time of a schedule fires once, whichever of three bridges fires, and however often each is
// killed.
func TestSchedulesOfSeveralBridges(t *testing.T) {
	nightly.Only(t, "fdbpq has schedules through crashes, and TestSeveralBridges kills a bridge")
	store := fdbtest.Shared(t).Setting()
	var daemons []*testenv.Process
	var ncs []*nats.Conn
	for range 3 {
		d := testenv.Daemon(t, store)
		daemons, ncs = append(daemons, d), append(ncs, d.Connect(t, nats.MaxReconnects(-1)))
	}
	random := pqd.Seeded(t)
	s := pqd.NewSchedules(t, random, func() *nats.Conn {
		for i, d := range daemons {
			if d.Running() {
				return ncs[i]
			}
		}
		t.Fatal("no bridge runs")
		return nil
	})
	for range cmp.Or(*pqd.Kills, 4) {
		s.Await()
		switch d := daemons[random.IntN(len(daemons))]; random.IntN(4) {
		case 0:
			s.Happen("SIGKILL of all", func() {
				for _, d := range daemons {
					d.Kill(t)
				}
				for _, d := range daemons {
					d.Start(t)
				}
			})
		case 1: // a while without it
			s.Happen("SIGKILL of one", func() { d.Kill(t) })
			s.Await()
			d.Start(t)
		default:
			s.Happen("SIGKILL of one", func() {
				d.Kill(t)
				d.Start(t)
			})
		}
	}
	s.Judge()
	for _, d := range daemons {
		d.Stop(t)
	}
}
