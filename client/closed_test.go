package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// What is under way when the program closes its connection ends then: requests that wait, requests without an answer, and pushes that
// no server has let leave.
func TestConnectionIsClosed(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	calls := map[string]func(*client.Client) error{
		"await": func(c *client.Client) error {
			_, err := c.Queue("jobs").AwaitResult(context.Background(), "a", time.Hour)
			return err
		},
		"info": func(c *client.Client) error { _, err := c.Queue("jobs").Info(context.Background()); return err },
		"push": func(c *client.Client) error { _, err := c.Queue("jobs").Push(context.Background(), nil); return err },
		"settle": func(c *client.Client) error {
			item, err := c.Attach("pq.jobs.ack.c.a")
			if err != nil {
				return err
			}
			return item.Ack(context.Background())
		},
		"pop": func(c *client.Client) error {
			_, err := c.Queue("jobs").Pop(context.Background(), client.Min, client.Lease(time.Minute), client.Wait(time.Hour))
			return err
		},
	}
	for name, call := range calls {
		c := d.client(t, client.Timeout(time.Hour))
		ended := make(chan error, 1)
		go func() { ended <- call(c) }()
		d.next(t)
		c.Conn().Close()
		if err := <-ended; !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}

	d.Shutdown()
	for name, call := range calls {
		nc, err := nats.Connect(d.URL(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
		if err != nil {
			t.Fatal(err)
		}
		refused := make(chan error, 1)
		c := newClient(t, nc, client.Timeout(time.Hour), client.OnRefusal(func(err error) { refused <- err }))
		ended := make(chan error, 1)
		go func() { ended <- call(c) }()
		if name == "push" || name == "settle" { // the others wait for the server
			<-refused
		}
		nc.Close()
		select {
		case err := <-ended:
			if !errors.Is(err, nats.ErrConnectionClosed) {
				t.Errorf("%s, without a server: %v", name, err)
			}
		case <-testenv.Late():
			t.Fatalf("%s goes on", name)
		}
	}
}
