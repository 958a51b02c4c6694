package faults_test

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// Many callers push through one client, so that their items share messages, while pqd and its NATS server, another process, are killed in
// turn. Each item whose push succeeded is there once, and each whose push did not is there once at most.
func TestCallersBesideKills(t *testing.T) {
	nightly.Only(t, "client has lost answers, and e2e/faults kills under load")
	t.Parallel()
	const callers = 64
	n, kills := cmp.Or(*pqd.Ops, 20_000), cmp.Or(*pqd.Kills, 4)
	random := pqd.Seeded(t)
	broker := testenv.Daemon(t, "PQ_PREFIX=other") // for its server alone
	p := testenv.Daemon(t, "NATS_URL="+broker.URL)
	nc := broker.Connect(t, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	c, err := client.New(nc, client.MixPriorities(), client.Timeout(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	q := c.Queue("jobs")

	order := random.Perm(n) // which item is pushed when
	pushed := make([]bool, n)
	var next atomic.Int64
	moments := make(chan int, kills)
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for {
				k := int(next.Add(1)) - 1
				if k >= n {
					return
				}
				if k%(n/(kills+1)) == 0 && k > 0 && k/(n/(kills+1)) <= kills {
					moments <- k
				}
				i := order[k]
				_, err := q.Push(t.Context(), []byte(strconv.Itoa(i)), client.Priority(int64(i%10)))
				if pushed[i] = err == nil; err != nil {
					t.Logf("push: %v", err)
				}
			}
		})
	}
	for i := range kills {
		<-moments
		ends := p
		if i%2 == 1 {
			ends = broker
		}
		ends.Kill(t)
		ends.Start(t)
	}
	all.Wait()
	took := time.Since(began)

	times := make([]int, n)
	for left := true; left; {
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
		items, err := q.PopBatch(ctx, client.Min, client.MaxMany)
		cancel()
		if left = !errors.Is(err, client.ErrEmpty); left && err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			i, err := strconv.Atoi(string(item.Payload))
			if err != nil || i < 0 || i >= n {
				t.Fatalf("popped %q", item.Payload)
			}
			times[i]++
		}
	}
	succeeded := 0
	for i := range times {
		if pushed[i] {
			succeeded++
		}
		if times[i] > 1 || pushed[i] && times[i] == 0 {
			t.Errorf("item %d is there %d times; its push succeeded: %t", i, times[i], pushed[i])
		}
	}
	messages := nc.Stats().OutMsgs
	t.Logf("%d of %d pushes succeeded in %s beside %d kills, in %d messages at most", succeeded, n, took.Round(time.Second), kills, messages)
	if succeeded < n*9/10 || int(messages) > n {
		t.Errorf("%d of %d pushes succeeded, in %d messages: expected most of them, in fewer messages than items", succeeded, n, messages)
	}
	nc.Close()
	p.Stop(t)
	broker.Stop(t)
}
