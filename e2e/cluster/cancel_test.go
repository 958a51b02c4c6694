package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// A handler at one node hears that its item was cancelled at another one, at once, and at its next extension at the latest where the node
// that has cancelled it dies right then, so that its bell may be lost.
func TestClusterCancel(t *testing.T) {
	nightly.Only(t, "TestHandlerHearsOfTheEndOfItsLease of client has one bridge, and TestResultsBesideKills cancels beside kills")
	t.Parallel()
	nodes := testenv.NewNodes(t)
	dial := func(url string) *client.Queue {
		q, die, err := pqd.Dial(url, "jobs")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(die)
		return q
	}
	active := nodes.Active(t)
	var others []*testenv.Process
	for _, p := range nodes.All {
		if p != active {
			others = append(others, p)
		}
	}
	const lease = 6 * time.Second
	begun, heard := make(chan string), make(chan error)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error)
	go func() {
		over <- dial(others[0].URL).Consume(ctx, func(ctx context.Context, item *client.Item) error {
			begun <- item.ID
			<-ctx.Done()
			heard <- context.Cause(ctx)
			return nil
		}, client.ConsumeOptions{Lease: lease, OnError: func(*client.Item, error) {}})
	}()
	caller := dial(others[1].URL)
	for round, fault := range []bool{false, true, false} {
		why := fmt.Sprint("round ", round)
		if _, err := caller.Push(ctx, []byte("x"), client.ResultTTL(time.Hour)); err != nil {
			t.Fatal(err)
		}
		id, began := <-begun, time.Now()
		if _, err := caller.Cancel(ctx, id, client.CancelOptions{Reason: why}); err != nil {
			t.Fatal(err)
		}
		if fault {
			active.Kill(t)
		}
		cause := <-heard
		took := time.Since(began)
		if !errors.Is(cause, client.ErrCancelled) || cause.Error() != "cancelled: "+why {
			t.Errorf("the context ended with %v, expected the reason %q", cause, why)
		}
		t.Logf("heard after %s", took.Round(time.Millisecond))
		if most := testenv.Times(lease / 3); !fault && took > most {
			t.Errorf("the handler heard after %s: expected a bell, before the extension that is due after %s", took, most)
		}
		if fault {
			nodes.Active(t, active)
			active.Start(t)
		}
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
