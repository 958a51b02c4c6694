package sources

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// A source that takes has a durable consumer, and acknowledges each message behind the commit. The server's floor may be lost, or
// ahead of what the filter lets through; only the position counts. So what comes again is acknowledged and dropped, and anything that is not
// in order ends the attempt. The next one resets the consumer, which delivers what was not acknowledged in order, with numbers from 1.

// durable returns the name of the consumer, which it makes at the first contact and resets.
func (a *attempt) durable(ctx context.Context) (string, error) {
	c := &a.source.Config
	name := fmt.Sprintf("pq-%s-%s-%s", a.runners.Store.ID(), strings.ReplaceAll(a.id.queue, ".", "="), a.id.name) // no dots are allowed in it
	config := jetstream.ConsumerConfig{
		Name: name, Durable: name, Description: "source " + a.id.name + " of queue " + a.id.queue,
		AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy, MaxDeliver: -1, MaxAckPending: c.Batch, AckWait: ackWait,
		FilterSubjects: c.Filter,
	}
	known := a.source.Position.Consumer
	info, err := a.stream.consumer(ctx, name)
	switch {
	case isMissing(err) && known != 0:
		return name, a.suspect(ctx, fdbpq.SourceStop{Reason: fdbpq.StopConsumer, Text: "the consumer " + name + " was deleted"})
	case isMissing(err):
		if info, err = a.stream.create(ctx, config, "create"); err != nil {
			return name, err
		}
	case err != nil:
		return name, err
	case known != 0 && info.Created.UnixNano() != known:
		return name, a.suspect(ctx, fdbpq.SourceStop{Reason: fdbpq.StopConsumer, Text: fmt.Sprintf("the consumer %s was deleted and made again at %s", name, info.Created.UTC().Format(time.RFC3339Nano))})
	case info.Config.AckPolicy != jetstream.AckExplicitPolicy || info.Config.DeliverPolicy != jetstream.DeliverAllPolicy || info.Config.MaxDeliver != -1:
		return name, a.suspect(ctx, fdbpq.SourceStop{Reason: fdbpq.StopConsumer, Text: "the consumer " + name + " was made or changed by somebody else"})
	case !sameFilter(&info.Config, c.Filter) || info.Config.MaxAckPending != c.Batch:
		if info, err = a.stream.create(ctx, config, "update"); err != nil {
			return name, err
		}
	}
	a.doubt = doubt{}
	if known == 0 {
		to := a.source.Position
		to.Consumer = info.Created.UnixNano()
		if err := a.move(ctx, to); err != nil {
			return name, err
		}
	}
	_, err = a.stream.reset(ctx, name)
	return name, err
}

// acknowledge acknowledges messages that the store has. The last one waits for an answer.
func (a *attempt) acknowledge(ctx context.Context, done []delivery) error {
	if len(done) == 0 {
		return nil
	}
	last := len(done) - 1
	for _, d := range done[:last] {
		if err := a.stream.nc.Publish(d.Reply, ack); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if _, err := a.stream.nc.RequestWithContext(ctx, done[last].Reply, ack); err != nil {
		return fmt.Errorf("acknowledge message %d: %w", done[last].seq, err)
	}
	return nil
}

var ack = []byte("+ACK")
