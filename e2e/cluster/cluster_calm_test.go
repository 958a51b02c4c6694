package cluster_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// Nodes that stall for less than PQ_CLUSTER_SILENCE under load are not lost. How many takeovers and elections there
// are is printed, because it depends on the machine: compare it with another pqd.
func TestClusterCalm(t *testing.T) {
	t.Parallel()
	if *trials == 0 {
		t.Skip("no -pq.trials")
	}
	const clients, stall, between = 64, 300 * time.Millisecond, time.Second
	nodes := testenv.NewNodes(t, "PQ_LOG_LEVEL=debug")
	random := pqd.Seeded(t)
	ctx, stop := context.WithCancel(t.Context())
	var pushed, failed atomic.Int64
	var pushing sync.WaitGroup
	for i := range clients {
		nc, err := nats.Connect(nodes.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		c, err := client.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		queue := c.Queue("q" + strconv.Itoa(i%8))
		pushing.Go(func() {
			for ctx.Err() == nil {
				switch _, err := queue.Push(ctx, []byte("x")); {
				case err == nil:
					pushed.Add(1)
				case ctx.Err() == nil:
					failed.Add(1)
				}
			}
		})
	}
	count := func(text string) (n int) {
		for _, p := range nodes.All {
			n += strings.Count(p.Log(), text)
		}
		return n
	}
	rest(ctx, settled)
	counted := []string{"kv/cluster: this member is active", "new stream leader for 'PQ_CLUSTER >", "a member is lost", "a group of the log lacks its leader"}
	before := make([]int, len(counted))
	for i, text := range counted {
		before[i] = count(text)
	}
	began := time.Now()
	for range 20 * *trials {
		node := nodes.All[random.IntN(len(nodes.All))]
		node.Pause(t)
		rest(ctx, stall)
		node.Resume(t)
		rest(ctx, between)
	}
	took := time.Since(began).Round(time.Second)
	stop()
	pushing.Wait()
	for i, text := range counted {
		t.Logf("%q: %d times in %s", text, count(text)-before[i], took)
	}
	t.Logf("%d pushes, %d without success", pushed.Load(), failed.Load())
}
