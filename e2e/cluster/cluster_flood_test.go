package cluster_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// A producer sends large pushes to a follower faster than the active node reads. What would be refused unread stays there: the
// follower says so, and the producer gets the active node's refusals. The active node stays the same, and serves others through
// the same follower.
func TestFloodAtAFollower(t *testing.T) {
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(limits, []byte("max_pending: 8MB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes := testenv.NewNodes(t, "PQ_NATS_CONFIG="+limits)
	active := nodes.Active(t)
	follower := nodes.All[0]
	if follower == active {
		follower = nodes.All[1]
	}
	producer, other := follower.Connect(t), follower.Connect(t)
	var refused atomic.Bool
	inbox := producer.NewInbox()
	if _, err := producer.Subscribe(inbox, func(m *nats.Msg) {
		if bytes.Contains(m.Data, []byte("more bytes arrive than this bridge can read, nothing was done: try again in a moment")) {
			refused.Store(true)
		}
	}); err != nil {
		t.Fatal(err)
	}
	push := func(ctx context.Context) bool {
		answer, err := other.RequestWithContext(ctx, "pq.jobs.push", []byte("work"))
		return err == nil && answer.Header.Get("Status") == "" && !bytes.Contains(answer.Data, []byte("error"))
	}
	enough := make(chan struct{})
	var flood sync.WaitGroup
	flood.Go(func() {
		for content := make([]byte, 900_000); ; {
			select {
			case <-enough:
				return
			default:
			}
			if err := producer.PublishRequest("pq.mine.push", inbox, content); err != nil {
				t.Error(err)
				return
			}
		}
	})
	follower.AwaitLog(t, "shedding load: more large requests come in here than reach the active node in time")
	testenv.AwaitAnswer(t, "another one's push beside the flood is acknowledged", push)
	testenv.Await(t, "the producer is refused", refused.Load)
	close(enough)
	flood.Wait()
	testenv.AwaitAnswer(t, "a push behind the flood is acknowledged", push)
	if now := nodes.Active(t); now != active {
		t.Errorf("the flood moved the active node from %s to %s", active.Node(), now.Node())
	}
}
