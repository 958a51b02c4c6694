package testenv_test

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/internal/testkit/patience"
	"github.com/pqbridge/pqbridge/testenv"
)

// Elections take NATS servers up to half a minute, so cuts are for a campaign.
var flagFaults = flag.Bool("pq.faults", false, "cut a server off the cluster")

// A stream of three replicas survives the loss of each server, also of a server that is
// only cut off, and a server that comes back has what it missed.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := testenv.NewCluster(t)
	nc, err := nats.Connect(c.URL(), nats.MaxReconnects(-1), nats.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	// Attempts are short: an answer that got lost never comes.
	await := func(what string, attempt func(context.Context) error) {
		t.Helper()
		testenv.Await(t, what, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), patience.Times(2*time.Second))
			defer cancel()
			return attempt(ctx) == nil
		})
	}
	publish := func(text string) {
		t.Helper()
		await(text+" is in the stream", func(ctx context.Context) error {
			_, err := js.Publish(ctx, "log", []byte(text), jetstream.WithMsgID(text))
			return err
		})
	}
	var stream jetstream.Stream
	await("there is a stream", func(ctx context.Context) (err error) {
		stream, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "LOG", Subjects: []string{"log"}, Replicas: 3})
		return err
	})
	publish("first")

	away := c.StreamLeader(t, "LOG")
	c.Kill(t, away)
	if c.StreamLeader(t, "LOG") == away {
		t.Fatalf("server %d leads although it is down", away)
	}
	publish("second")
	c.Start(t, away)
	c.AwaitCurrent(t, "LOG")

	if *flagFaults {
		away = c.StreamLeader(t, "LOG")
		c.Isolate(away)
		if c.StreamLeader(t, "LOG") == away {
			t.Fatalf("server %d leads although it is cut off", away)
		}
		c.Join(away)
		c.AwaitLeader(t)
		c.AwaitCurrent(t, "LOG")
	}
	publish("third")
	var messages uint64
	await("the stream describes itself", func(ctx context.Context) error {
		info, err := stream.Info(ctx)
		if err == nil {
			messages = info.State.Msgs
		}
		return err
	})
	if messages != 3 {
		t.Errorf("the stream has %d messages, expected 3", messages)
	}
}
