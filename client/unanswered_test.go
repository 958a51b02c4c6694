package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// The time is up behind an attempt without an answer. That an attempt before it was refused does
// not say that this one did nothing.
func TestNoAnswerAfterRefusal(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(context.Context, *client.Queue) error{
		"push":             func(ctx context.Context, q *client.Queue) error { _, err := q.Push(ctx, nil); return err },
		"pop":              popWith(),
		"pop with an id":   popWith(client.Repeatable()),
		"pop with a lease": popWith(client.Lease(time.Minute)),
		"pop that waits":   popWith(client.Wait(time.Minute)),
		"purge":            func(ctx context.Context, q *client.Queue) error { _, err := q.Purge(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := fake(t, func(_ *nats.Msg, n int) *nats.Msg {
				if n == 1 {
					return failure("503", "")
				}
				cancel()
				return nil
			})
			if err := do(ctx, c.Queue("jobs")); !errors.Is(err, client.ErrUnknownResult) {
				t.Errorf("%v, expected an unknown result", err)
			}
		})
	}
}
