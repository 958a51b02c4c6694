package cluster_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

const (
	keepsBack   = "shedding load: more large requests come in here than reach the active node in time"
	tooManyByte = "more bytes arrive than this bridge can read, nothing was done: try again in a moment"
)

// producer sends large pushes without a pause, until it is told to stop.
type producer struct {
	refused atomic.Bool // as the active node refuses unread
	enough  chan struct{}
	sends   sync.WaitGroup
}

func produce(t *testing.T, nc *nats.Conn) *producer {
	t.Helper()
	p := &producer{enough: make(chan struct{})}
	inbox := nc.NewInbox()
	if _, err := nc.Subscribe(inbox, func(m *nats.Msg) {
		if bytes.Contains(m.Data, []byte(tooManyByte)) {
			p.refused.Store(true)
		}
	}); err != nil {
		t.Fatal(err)
	}
	p.sends.Go(func() {
		for content := make([]byte, 900_000); ; {
			select {
			case <-p.enough:
				return
			default:
			}
			if err := nc.PublishRequest("pq.mine.push", inbox, content); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return p
}

func (p *producer) stop() {
	close(p.enough)
	p.sends.Wait()
}

// A producer sends large pushes faster than the active node reads, to a follower and then to the active node. A follower says
// that it keeps back what would be refused unread, the second one because it hears of it, and the producer gets the
// active node's refusals. The active node stays the same, and serves others through the same follower.
func TestFloodsAtNodes(t *testing.T) {
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(limits, []byte("max_pending: 8MB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes := testenv.NewNodes(t, "PQ_NATS_CONFIG="+limits)
	active := nodes.Active(t)
	followers := slices.DeleteFunc(slices.Clone(nodes.All), func(p *testenv.Process) bool { return p == active })
	acknowledged := func(nc *nats.Conn) func(ctx context.Context) bool {
		return func(ctx context.Context) bool {
			answer, err := nc.RequestWithContext(ctx, "pq.jobs.push", []byte("work"))
			return err == nil && answer.Header.Get("Status") == "" && !bytes.Contains(answer.Data, []byte("error"))
		}
	}
	other := followers[0].Connect(t)
	flood := produce(t, followers[0].Connect(t))
	followers[0].AwaitLog(t, keepsBack)
	testenv.AwaitAnswer(t, "another one's push beside the flood is acknowledged", acknowledged(other))
	testenv.Await(t, "the producer is refused", flood.refused.Load)
	flood.stop()
	testenv.AwaitAnswer(t, "a push behind the flood is acknowledged", acknowledged(other))

	flood = produce(t, active.Connect(t))
	large, stop := followers[1].Connect(t), make(chan struct{})
	var pushes sync.WaitGroup
	pushes.Go(func() {
		for { // one at a time: none waits for a route
			ctx, cancel := context.WithTimeout(context.Background(), testenv.Attempt())
			_, _ = large.RequestWithContext(ctx, "pq.mine.push", make([]byte, 20_000)) // refused, or not, or lost beside the flood
			cancel()
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	followers[1].AwaitLog(t, keepsBack)
	flood.stop()
	close(stop)
	pushes.Wait()
	if now := nodes.Active(t); now != active {
		t.Errorf("the floods moved the active node from %s to %s", active.Node(), now.Node())
	}
}
