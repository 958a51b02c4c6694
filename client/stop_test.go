package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// A consumer that is stopped hands back what it has: what runs as an attempt that has not failed, and
// what nobody has begun with as if it had never left.
func TestStopHandsBack(t *testing.T) {
	t.Parallel()
	t.Run("running", func(t *testing.T) {
		t.Parallel()
		w := start(t)
		pushed := w.push(t, "a")
		deploys := nightly.Fewer(200)
		for range deploys {
			started := make(chan struct{})
			stop := w.consume(t, func(ctx context.Context, _ *client.Item) error {
				close(started)
				<-ctx.Done()
				return ctx.Err()
			}, client.ConsumeOptions{Grace: time.Millisecond})
			select {
			case <-started:
			case <-testenv.Late():
				t.Fatal("the item does not come back")
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		}
		item, err := w.queue.Get(t.Context(), pushed.ID, client.WithAttempts())
		if err != nil {
			t.Fatal(err)
		}
		if item.State != client.Ready || item.Failures+item.Interruptions > 0 || item.Attempts != int64(deploys) {
			t.Errorf("after %d deploys: %+v", deploys, item)
		}
		for _, a := range item.LastAttempts {
			if a.Outcome != protocol.OutcomeBack || a.Reason != "stopped" {
				t.Errorf("an attempt is %+v", a)
			}
		}
	})
	t.Run("not begun", func(t *testing.T) {
		t.Parallel()
		w := start(t)
		hourly := "1/1h"
		if _, err := w.queue.Configure(t.Context(), client.ConfigChange{Rate: &hourly}); err != nil {
			t.Fatal(err)
		}
		w.push(t, "a")
		for range 3 { // or the queue would stand for an hour
			item := w.pop(t, client.Min, client.Lease(time.Hour))
			item.BeginAfterTheEnd(func(context.Context, *client.Item) error {
				t.Error("the handler began after the end")
				return nil
			}, func(_ *client.Item, err error) { t.Error(err) })
			if item, err := w.queue.Get(t.Context(), item.ID); err != nil || item.State != client.Ready || item.Attempts+int64(item.Failures+item.Interruptions) > 0 {
				t.Errorf("%+v, %v: expected it without an attempt", item, err)
			}
		}
	})
	t.Run("waiting", func(t *testing.T) {
		t.Parallel()
		w := start(t)
		if _, err := w.queue.Configure(t.Context(), client.ConfigChange{}); err != nil {
			t.Fatal(err)
		}
		stop := w.consume(t, nil, client.ConsumeOptions{Workers: 20, Lease: time.Hour})
		w.await(t, "jobs", func(i *client.Info) bool { return i.Waiting > 0 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		pushed := w.push(t, "a")
		w.await(t, "jobs", func(i *client.Info) bool { return i.Ready == 1 && i.Leased == 0 })
		if item, err := w.queue.Get(t.Context(), pushed.ID); err != nil || item.Attempts+int64(item.Failures+item.Interruptions) > 0 {
			t.Errorf("%+v, %v: expected it without an attempt", item, err)
		}
	})
}
