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

// A bulk operation brings each dead letter back once, beside the bridges of others on the store,
// however often its own is killed.
func TestBulkOfSeveralBridges(t *testing.T) {
	nightly.Only(t, "fdbpq has bulk operations beside all else, and TestSeveralBridges kills a bridge")
	store := fdbtest.Shared(t).Setting()
	own, other := testenv.Daemon(t, store), testenv.Daemon(t, store)
	dial := func(d *testenv.Process) func() *nats.Conn {
		return func() *nats.Conn { return d.Connect(t, nats.MaxReconnects(-1), nats.ReconnectWait(pqd.ReconnectWait)) }
	}
	random := pqd.Seeded(t)
	l := pqd.NewLetters(t, dial(own)(), *pqd.DeadLetters)
	work := pqd.NewWork(t, dial(other), cmp.Or(*pqd.Workers, 2))
	kills := cmp.Or(*pqd.Kills, 2)
	took, still := l.Requeue(random, kills, func() {
		own.Kill(t)
		own.Start(t)
	})
	t.Logf("%d dead letters are requeued in %s beside %d kills; nothing came back for %s of it", *pqd.DeadLetters, took, kills, still)
	work.Stop()
	l.Judge()
	own.Stop(t)
	other.Stop(t)
}
