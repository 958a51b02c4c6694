package bridge_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// earlier makes the source of a queue as an earlier pqd has left it: it has pushed three messages and acknowledged two, by a consumer whose name
// another source may have, too.
func (f *fed) earlier(consumer jetstream.Consumer, queue, name string) {
	f.Helper()
	stream, err := f.js.Stream(f.Context(), "ORDERS")
	if err != nil {
		f.Fatal(err)
	}
	f.inStore(func(tx kv.Tx) error {
		sources := source.New(f.env.Store)
		s, err := sources.Set(tx, f.env.Store.Queue(queue), name, []byte(`{"remote":"hub","stream":"ORDERS","mode":"take"}`), func(source.Config) error { return nil })
		if err != nil {
			return err
		}
		to := s.Position
		to.Mark, to.Exact, to.Delivered = source.Mark{Seq: 3}, false, 3
		to.Created, to.Consumer = stream.CachedInfo().Created.UnixNano(), consumer.CachedInfo().Created.UnixNano()
		return sources.Move(tx, &s, to)
	})
}

// consume makes the consumer, acknowledges two messages of three, and leaves the third one as it is.
func (f *fed) consume(name, description string) jetstream.Consumer {
	f.Helper()
	c, err := f.js.CreateConsumer(f.Context(), "ORDERS", jetstream.ConsumerConfig{
		Durable: name, Description: description, AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy, MaxAckPending: 512,
	})
	if err != nil {
		f.Fatal(err)
	}
	for i := range 3 {
		m, err := c.Next(jetstream.FetchMaxWait(testenv.Patience()))
		if err == nil && i < 2 {
			err = m.DoubleAck(f.Context())
		}
		if err != nil {
			f.Fatal(err)
		}
	}
	return c
}

// A source goes on with the consumer that it had under its earlier name: nothing is read twice, and nothing is passed over.
func TestSourceFindsItsEarlierConsumer(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	f.publish(5)
	c := f.consume("pq-"+f.env.Store.ID()+"-jobs-orders", "source orders of queue jobs")
	f.earlier(c, "jobs", "orders")
	f.items("4", "5")
	f.publish(2)
	f.items("6", "7")
	testenv.AwaitAnswer(t, "the stream is empty", func(ctx context.Context) bool {
		s, err := f.js.Stream(ctx, "ORDERS")
		return err == nil && s.CachedInfo().State.Msgs == 0 && s.CachedInfo().State.Consumers == 1
	})
	if s := f.at(7); s.Counts.Delivered != 7 || s.Counts.Skipped != 0 {
		t.Errorf("counts: %+v", s.Counts)
	}
}

// Two sources whose queues and names are alike have a consumer each. Those that shared one under an earlier pqd do not any more: the one
// that it is not of stops, and gets its own when a person accepts.
func TestSourcesWithNamesAlike(t *testing.T) {
	t.Parallel()
	t.Run("new", func(t *testing.T) {
		t.Parallel()
		f := feeding(t, jetstream.StreamConfig{Retention: jetstream.InterestPolicy})
		f.alike("jobs", "x-orders")
		f.alike("jobs-x", "orders")
		testenv.AwaitAnswer(t, "each has a consumer", func(ctx context.Context) bool {
			s, err := f.js.Stream(ctx, "ORDERS")
			return err == nil && s.CachedInfo().State.Consumers == 2
		})
		f.publish(20)
		for _, queue := range []string{"jobs", "jobs-x"} {
			testenv.Await(t, queue+" has all", func() bool { return f.info(queue).Ready == 20 })
		}
	})
	t.Run("earlier", func(t *testing.T) {
		t.Parallel()
		f := feeding(t, jetstream.StreamConfig{Retention: jetstream.InterestPolicy})
		if _, err := f.js.CreateConsumer(f.Context(), "ORDERS", jetstream.ConsumerConfig{Durable: "other", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
			t.Fatal(err)
		}

		c, err := f.js.CreateConsumer(f.Context(), "ORDERS", jetstream.ConsumerConfig{
			Durable: "pq-" + f.env.Store.ID() + "-jobs-x-orders", Description: "source x-orders of queue jobs",
			AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy, MaxAckPending: 512,
		})
		if err != nil {
			t.Fatal(err)
		}
		f.publish(3)
		f.earlier(c, "jobs", "x-orders")
		f.earlier(c, "jobs-x", "orders")
		f.publish(2)
		testenv.Await(t, "jobs has what is new", func() bool { return f.info("jobs").Ready == 2 })
		const other = "pq.jobs-x.admin.source.orders"
		testenv.Await(t, "the other one has stopped", func() bool { return ofFed[protocol.Source](f, other, "").State == "stopped" })
		if n := f.info("jobs-x").Ready; n != 0 {
			t.Errorf("it has pushed %d items", n)
		}
		ofFed[protocol.Source](f, other+".resume", `{"accept":true}`)
		testenv.Await(t, "jobs-x has what is new", func() bool { return f.info("jobs-x").Ready == 2 })
	})
}

func (f *fed) alike(queue, name string) {
	f.Helper()
	ofFed[protocol.Source](f, "pq."+queue+".admin.source."+name, `{"remote":"hub","stream":"ORDERS","mode":"take"}`)
}
