package faults_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// Many callers push through one client, so that their items share messages, while pqd and its NATS server, another process, are killed in
// turn. Each item whose push succeeded is there once, and each whose push did not is there once at most.
func TestCallersBesideKills(t *testing.T) {
	nightly.Only(t, "client has lost answers, and e2e/faults kills under load")
	t.Parallel()
	n, kills := cmp.Or(*pqd.Ops, 20_000), cmp.Or(*pqd.Kills, 4)
	random := pqd.Seeded(t)
	broker := testenv.Daemon(t, "PQ_PREFIX=other") // for its server alone
	p := testenv.Daemon(t, "NATS_URL="+broker.URL)
	nc := broker.Connect(t, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	c, err := client.New(nc, client.MixPriorities(), client.Timeout(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	callers := pqd.NewCallers(t, c.Queue("jobs"), n)
	took := callers.Push(random, 64, kills, func(i int) {
		ends := p
		if i%2 == 1 {
			ends = broker
		}
		ends.Kill(t)
		ends.Start(t)
	})
	callers.Pop()
	succeeded := callers.Judge()
	messages := nc.Stats().OutMsgs
	t.Logf("%d of %d pushes succeeded in %s beside %d kills, in %d messages at most", succeeded, n, took.Round(time.Second), kills, messages)
	if succeeded < n*9/10 || int(messages) > n {
		t.Errorf("%d of %d pushes succeeded, in %d messages: expected most of them, in fewer messages than items", succeeded, n, messages)
	}
	nc.Close()
	p.Stop(t)
	broker.Stop(t)
}
