// A worker in Go: it does the jobs of a queue, four at a time, until it is
// interrupted, and then finishes what it has begun.
//
//	go run ./examples/worker jobs
//
// A job says what to do, as in "resize cat.png".
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("usage: worker <queue>")
	}
	url := nats.DefaultURL
	if set := os.Getenv("NATS_URL"); set != "" {
		url = set
	}
	nc, err := nats.Connect(url, nats.Name("worker"), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	c, err := client.New(nc)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.Queue(os.Args[1]).Consume(ctx, work, client.ConsumeOptions{
		Workers: 4,
		Lease:   30 * time.Second, // until a worker that died is missed
		OnError: func(item *client.Item, err error) { log.Println(err) },
	})
}

// work does one job. What it returns decides: nil acknowledges the job, an error
// gives it back to be tried again later, and GiveUp makes it a dead letter. The
// lease is extended while it runs; if it is lost all the same, ctx ends. Another
// worker may then do the job too, so the work must be harmless when done twice, or
// be guarded by item.Fence.
func work(ctx context.Context, item *client.Item) error {
	verb, object, found := strings.Cut(string(item.Payload), " ")
	if !found {
		return client.GiveUp(fmt.Errorf("job %q: expected a verb and an object", item.Payload))
	}
	fmt.Printf("%s %s: done, priority %d\n", verb, object, item.Priority)
	return ctx.Err()
}
