package client_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// While bridges are replaced one after the other, no request fails, and no item is lost
// or handled twice.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	const n, restarts = 300, 3
	server, store := testenv.NATS(t), testenv.Store(t)
	launch := func() (stop func()) {
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
		defer cancel()
		b, err := bridge.Start(ctx, server.Connect(t, bridge.ConnectOptions(nil)...), store, bridge.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience())
			defer cancel()
			if err := b.Drain(ctx); err != nil {
				t.Errorf("drain a bridge: %v", err)
			}
		}
	}
	q := newClient(t, server.Connect(t)).Queue("jobs")
	stop := launch()
	defer func() { stop() }()

	var handled [n]atomic.Int32
	left := make(chan struct{}, n)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- q.Consume(ctx, func(_ context.Context, item *client.Item) error {
			handled[item.Priority].Add(1)
			left <- struct{}{}
			return nil
		}, client.ConsumeOptions{
			Workers: 4,
			OnError: func(_ *client.Item, err error) { t.Errorf("consume: %v", err) },
		})
	}()
	pushed := make(chan error, 1)
	go func() {
		for i := range n {
			if _, err := q.Push(ctx, nil, client.Priority(int64(i))); err != nil {
				pushed <- fmt.Errorf("push %d: %w", i, err)
				return
			}
		}
		pushed <- nil
	}()
	for i := range n {
		if i%(n/(restarts+1)) == n/(restarts+1)-1 {
			old := stop
			stop = launch()
			old()
		}
		select {
		case <-left:
		case err := <-pushed:
			if err != nil {
				t.Fatal(err)
			}
			<-left
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("consume ended with %v", err)
	}
	for i := range handled {
		if times := handled[i].Load(); times != 1 {
			t.Errorf("item %d was handled %d times", i, times)
		}
	}
}
