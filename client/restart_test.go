package client_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// While bridges are replaced one after the other, no request fails, and no item is lost
// or handled twice, although the calls of many callers are in the messages that are under way then.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	const n, restarts, callers = 3000, 3, 64
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
	var bundles [2]atomic.Int32 // of pushes, of settlements
	spy := server.Connect(t)
	for i, subject := range []string{"pq.jobs.push.>", "pq.jobs.ack.bundle.settle"} {
		if _, err := spy.Subscribe(subject, func(m *nats.Msg) {
			if m.Header.Get("PQ-Bundle") != "" {
				bundles[i].Add(1)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := spy.Flush(); err != nil {
		t.Fatal(err)
	}
	stop := launch()
	defer func() { stop() }()

	var handled [n]atomic.Int32
	left := make(chan struct{}, n)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- q.Consume(ctx, func(_ context.Context, item *client.Item) error {
			i, err := strconv.Atoi(string(item.Payload))
			if err != nil {
				return err
			}
			handled[i].Add(1)
			left <- struct{}{}
			return nil
		}, client.ConsumeOptions{
			Workers: callers,
			OnError: func(_ *client.Item, err error) {
				if !errors.Is(err, client.ErrNotFound) { // the first push may come later
					t.Errorf("consume: %v", err)
				}
			},
		})
	}()
	pushed := make(chan error, callers)
	for c := range callers {
		go func() {
			for i := c; i < n; i += callers {
				if _, err := q.Push(ctx, []byte(strconv.Itoa(i)), client.Priority(1)); err != nil {
					pushed <- fmt.Errorf("push %d: %w", i, err)
					return
				}
			}
			pushed <- nil
		}()
	}
	for i := range n {
		if i%(n/(restarts+1)) == n/(restarts+1)-1 {
			old := stop
			stop = launch()
			old()
		}
		for item := false; !item; {
			select {
			case <-left:
				item = true
			case err := <-pushed:
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("consume ended with %v", err)
	}
	if bundles[0].Load() == 0 || bundles[1].Load() == 0 {
		t.Errorf("%d messages had several pushes, %d several settlements", bundles[0].Load(), bundles[1].Load())
	}
	for i := range handled {
		if times := handled[i].Load(); times != 1 {
			t.Errorf("item %d was handled %d times", i, times)
		}
	}
}
