package faults_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// A bulk operation brings each dead letter back once, beside other work, however often pqd is killed.
func TestBulkBesideKills(t *testing.T) {
	t.Parallel()
	random := pqd.Seeded(t)
	p := testenv.Daemon(t)
	dial := func() *nats.Conn { return p.Connect(t, nats.MaxReconnects(-1), nats.ReconnectWait(pqd.ReconnectWait)) }
	nc := dial()
	letters, kills := *pqd.DeadLetters, cmp.Or(*pqd.Kills, 2)
	work := pqd.NewWork(t, dial, cmp.Or(*pqd.Workers, 2))
	if *pqd.Kills > 0 {
		l := pqd.NewLetters(t, nc, letters)
		work.Reset()
		<-time.After(5 * time.Second)
		n, median, p99 := work.Reset()
		t.Logf("other work alone: %d steps in 5s, median %s, p99 %s", n, median, p99)
		took, _ := l.Requeue(random, 0, nil)
		n, median, p99 = work.Reset()
		t.Logf("%d dead letters are requeued in %s; other work beside it: %d steps, median %s, p99 %s", letters, took, n, median, p99)
		l.Judge()
	}
	l := pqd.NewLetters(t, nc, letters)
	var away time.Duration
	took, still := l.Requeue(random, kills, func() {
		killed := time.Now()
		p.Kill(t)
		p.Start(t)
		away += time.Since(killed)
	})
	t.Logf("%d dead letters are requeued in %s beside %d kills; nothing came back for %s of it, in which pqd was away for %s", letters, took, kills, still, away)
	work.Stop()
	l.Judge()
	p.Stop(t)
}
