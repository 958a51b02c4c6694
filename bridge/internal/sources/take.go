package sources

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/fdbpq/source"
)

// A source in mode take has a durable consumer, and acknowledges each message after the commit. The server's floor
// may be lost, or ahead of the messages that pass the filter; only the position counts. So a message that comes
// again is acknowledged and dropped, and any message out of order ends the attempt. The next attempt resets the
// consumer, which delivers the unacknowledged messages in order, with numbers from 1.

// durable returns the name of the consumer, which it makes at the first contact and resets.
func (a *attempt) durable(ctx context.Context) (string, error) {
	c := &a.source.Config
	name := Consumer(a.runners.Store.ID(), a.id.queue, a.id.name)
	info, err := a.stream.consumer(ctx, name)
	config := jetstream.ConsumerConfig{
		Name: name, Durable: name, Description: a.description(),
		AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy, MaxDeliver: -1, MaxAckPending: c.Batch, AckWait: ackWait,
		FilterSubjects: c.Filter, Metadata: map[string]string{filterKey: filterText(c.Filter)},
	}
	known := a.source.Position.Consumer
	switch {
	case isMissing(err) && known != 0:
		return name, a.suspect(ctx, source.Stop{Reason: source.StopConsumer, Text: "the consumer " + name + " was deleted"})
	case isMissing(err):
		if info, err = a.stream.create(ctx, config, "create"); err != nil {
			return name, err
		}
	case err != nil:
		return name, err
	case known != 0 && info.Created.UnixNano() != known:
		return name, a.suspect(ctx, source.Stop{Reason: source.StopConsumer, Text: fmt.Sprintf("the consumer %s was deleted and made again at %s", name, info.Created.UTC().Format(time.RFC3339Nano))})
	case isForeign(&info.Config), known != 0 && wasRefiltered(&info.Config):
		return name, a.suspect(ctx, source.Stop{Reason: source.StopConsumer, Text: "the consumer " + name + " was made or changed by somebody else"})
	case wasRefiltered(&info.Config), !sameFilter(&info.Config, c.Filter), info.Config.MaxAckPending != c.Batch:
		if known != 0 && !sameFilter(&info.Config, c.Filter) {
			if err := a.refilter(ctx, name, info.Config.MaxAckPending); err != nil {
				return name, err
			}
		}
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
	from := uint64(0)
	if !a.source.Position.Exact && a.info.Config.Retention == jetstream.WorkQueuePolicy {
		from = 1 // nothing was read since the position was found, so all messages of the stream have to come, wherever the consumer's floor is
	}
	_, err = a.stream.reset(ctx, name, from)
	return name, err
}

// filterKey is the metadata in which a consumer has the filter that it was given, so that a change by hand is
// noticed.
const filterKey = "pq-filter"

func filterText(filter []string) string {
	return strings.Join(slices.Sorted(slices.Values(filter)), " ")
}

// isForeign reports whether somebody else has made a consumer.
func isForeign(c *jetstream.ConsumerConfig) bool {
	return c.AckPolicy != jetstream.AckExplicitPolicy || c.DeliverPolicy != jetstream.DeliverAllPolicy || c.MaxDeliver != -1
}

// wasRefiltered reports whether somebody else has changed the filter.
func wasRefiltered(c *jetstream.ConsumerConfig) bool {
	return c.Metadata[filterKey] != filterText(filterOf(c))
}

// refilter acknowledges the messages up to the position, before a consumer gets another filter: those that passed
// the old filter are pushed. Messages that the old filter left out were never read, wherever they lie; an interest
// stream does not keep them for this consumer.
func (a *attempt) refilter(ctx context.Context, name string, batch int) error {
	if a.source.Position.Exact {
		if err := a.drain(ctx, name, batch); err != nil {
			return err
		}
	}
	if a.info.Config.Retention != jetstream.WorkQueuePolicy {
		return nil
	}
	info, err := a.stream.info(ctx)
	if err != nil {
		return err
	}
	a.goesBack(&info)
	to := a.source.Position
	to.Seq, to.Exact, to.Subject, to.Content = max(info.State.FirstSeq, 1)-1, false, 0, 0
	return a.move(ctx, to)
}

// drain acknowledges the consumer's messages up to the position.
func (a *attempt) drain(ctx context.Context, name string, batch int) error {
	if _, err := a.stream.reset(ctx, name, 0); err != nil {
		return err
	}
	p, err := newPull(a.stream, a.runners.clock, name, max(batch, 1), 1)
	if err != nil {
		return err
	}
	defer p.close()
	for {
		info, err := a.stream.consumer(ctx, name)
		if err != nil || info.NumPending == 0 && info.NumAckPending == 0 {
			return err
		}
		var old []delivery
		d, is, err := p.next(ctx, time.After(pullBeat), a.lost)
		for ; is && err == nil && d.seq <= a.source.Position.Seq; d, is, err = p.more() {
			old = append(old, d)
		}
		if err == nil {
			err = a.acknowledge(ctx, old)
		}
		if err != nil || is { // there is nothing up to the position behind one that is not
			return err
		}
	}
}

// Consumer is the name of the consumer of a source. No part of it contains =, which separates them and replaces
// dots, so no two sources have the same name.
func Consumer(store, queue, source string) string {
	return "pq-" + store + "-" + strings.ReplaceAll(queue, ".", "=") + "=" + source
}

func (a *attempt) description() string { return "source " + a.id.name + " of queue " + a.id.queue }

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
