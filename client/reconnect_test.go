package client_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// An answer that is under way when the connection breaks never arrives. The client repeats
// requests other than pops on the new connection at once, if doing them twice is like doing
// them once.
func TestReconnectRepeatsRequests(t *testing.T) {
	t.Parallel()
	for _, r := range requests {
		if r.name == "repeatable pop" || r.name == "peek" {
			r.repeatable = false // their first attempts may still answer on the new connection
		}
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
