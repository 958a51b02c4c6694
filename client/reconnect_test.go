package client_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// An answer that is under way when the connection breaks never arrives. The client repeats
// requests on the new connection at once, if doing them twice is like doing them once. A lease
// that nobody received is given back, so it repeats pops that wait for one, too.
func TestReconnectRepeatsRequests(t *testing.T) {
	t.Parallel()
	waiting := requests[0]
	waiting.name, waiting.answer = "waiting pop", itemAnswer
	waiting.do = func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Pop(ctx, client.Min, client.Repeatable(), client.Wait(time.Minute))
		return err
	}
	leased := waiting
	leased.name = "waiting pop with a lease"
	leased.do = func(ctx context.Context, _ *client.Client, q *client.Queue) error {
		_, err := q.Pop(ctx, client.Min, client.Lease(time.Minute), client.Wait(time.Minute))
		return err
	}
	for _, r := range append(slices.Clone(requests), waiting, leased) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			server := testenv.NATS(t)
			bridge := server.Connect(t)
			var asked atomic.Int32
			first := make(chan struct{}, 2)
			_, err := bridge.Subscribe("pq.>", func(m *nats.Msg) {
				if asked.Add(1) <= 2 {
					first <- struct{}{}
					return
				}
				answer := r.answer()
				if m.Subject == "pq.clock.info" {
					answer = emptyAnswer()
				}
				if err := m.RespondMsg(answer); err != nil {
					t.Error(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := bridge.Flush(); err != nil {
				t.Fatal(err)
			}
			c := newClient(t, server.Connect(t))
			c.AskAgainAfter(time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done, clock := make(chan error, 1), make(chan error, 1)
			go func() { done <- r.do(ctx, c, c.Queue("jobs")) }()
			go func() {
				_, err := c.Queue("clock").Info(ctx)
				clock <- err
			}()
			<-first
			<-first
			if err := c.Conn().ForceReconnect(); err != nil {
				t.Fatal(err)
			}
			if err := <-clock; err != nil {
				t.Errorf("info: %v", err)
			}
			if r.repeatable {
				if err := <-done; err != nil {
					t.Error(err)
				}
				return
			}
			cancel()
			fails(t, <-done, context.Canceled, 504, "")
			if n := asked.Load(); n != 3 {
				t.Errorf("%d requests, expected that the info alone was repeated", n)
			}
		})
	}
}

// A pop waits at a bridge while the client's connection is a new one, several times. All of its
// attempts wait there. It gets one item, under one lease that stays valid, and no other one.
func TestReconnectWhilePopWaits(t *testing.T) {
	t.Parallel()
	t.Run("with an id", func(t *testing.T) { t.Parallel(); reconnectWhilePopWaits(t, client.Repeatable()) })
	t.Run("without", func(t *testing.T) { t.Parallel(); reconnectWhilePopWaits(t) })
}

func reconnectWhilePopWaits(t *testing.T, opts ...client.PopOption) {
	b := testenv.Bridge(t, bridge.Options{})
	pusher, c := newClient(t, b.NATS.Connect(t)), newClient(t, b.NATS.Connect(t))
	if _, err := pusher.Queue("jobs").Configure(t.Context(), client.ConfigChange{}); err != nil {
		t.Fatal(err)
	}
	type popped struct {
		item *client.Item
		err  error
	}
	done := make(chan popped, 1)
	go func() {
		item, err := c.Queue("jobs").Pop(t.Context(), client.Min, append(opts, client.Wait(testenv.Patience()), client.Lease(time.Hour))...)
		done <- popped{item, err}
	}()
	waits := func(n int) {
		t.Helper()
		testenv.Await(t, "all attempts wait", func() bool {
			info, err := pusher.Queue("jobs").Info(t.Context())
			return err == nil && info.Waiting >= n
		})
	}
	waits(1)
	for n := range 3 {
		if err := c.Conn().ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		waits(n + 2)
	}
	for range 5 {
		if _, err := pusher.Queue("jobs").Push(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	testenv.Await(t, "no attempt waits", func() bool {
		info, err := pusher.Queue("jobs").Info(t.Context())
		return err == nil && info.Waiting == 0
	})
	if err := got.item.Ack(t.Context()); err != nil {
		t.Errorf("acknowledging the item: %v", err)
	}
	// What attempts got on connections that are gone comes back when the server says that nobody received it.
	testenv.Await(t, "the other four items are ready", func() bool {
		info, err := pusher.Queue("jobs").Info(t.Context())
		return err == nil && info.Ready == 4 && info.Leased == 0
	})
}
