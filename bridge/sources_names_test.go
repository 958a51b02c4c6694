package bridge_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// Two sources whose queues and names are alike have a consumer each.
func TestSourcesWithNamesAlike(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{Retention: jetstream.InterestPolicy})
	queues := map[string]string{"jobs": "x-orders", "jobs-x": "orders"}
	for queue, name := range queues {
		ofFed[protocol.Source](f, "pq."+queue+".admin.source."+name, `{"remote":"hub","stream":"ORDERS","mode":"take"}`)
	}
	testenv.AwaitAnswer(t, "each has a consumer", func(ctx context.Context) bool {
		s, err := f.js.Stream(ctx, "ORDERS")
		return err == nil && s.CachedInfo().State.Consumers == 2
	})
	f.publish(20)
	for queue := range queues {
		testenv.Await(t, queue+" has all", func() bool { return f.info(queue).Ready == 20 })
	}
}
