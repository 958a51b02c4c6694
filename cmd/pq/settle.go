package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// settleLeases makes the command c settle leases by their subjects.
func settleLeases(s *session.Session, c *cobra.Command, settle func(*client.Item) error) *cobra.Command {
	cost := int64(-1)
	c.Flags().Func("cost", "what this delivery has really cost, a `number` from 0 to 1000000", func(text string) (err error) {
		if cost, err = strconv.ParseInt(text, 10, 64); err != nil || cost < 0 {
			return errors.New("expected a number from 0 to 1000000")
		}
		return nil
	})
	c.Use += " <ack subject>..."
	c.Args = session.Arguments(1, session.AnyNumber)
	c.RunE = func(_ *cobra.Command, args []string) error {
		connected, err := s.Connect()
		if err != nil {
			return err
		}
		for _, subject := range args {
			item, err := connected.Attach(subject)
			if err != nil {
				return session.Usagef("%w", err)
			}
			if cost >= 0 {
				item.Spent(cost)
			}
			if err := settle(item); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

func ackCommand(s *session.Session) *cobra.Command {
	var result string
	c := &cobra.Command{
		Use:   "ack",
		Short: "acknowledge leased items: they are done",
		Long: `Acknowledges items that were popped with --lease, by the subjects that pop
printed. Fails when the lease is lost: the item goes to another consumer then.`,
		Example: `  # in a script
  pq pop jobs --lease 1m --json > item && ./work item && pq ack $(jq -r .ack item)

  # with the result, for "pq result"
  pq ack --result '12 boards' pq.jobs.ack.…

  # and what it has really cost
  pq ack --cost 1830 pq.jobs.ack.…`,
	}
	c.Flags().StringVar(&result, "result", result, "`text` that the queue keeps, if the push asked for a result")
	return settleLeases(s, c, func(i *client.Item) error {
		if result != "" {
			return i.AckWith(s.Context, []byte(result))
		}
		return i.Ack(s.Context)
	})
}

func nackCommand(s *session.Session) *cobra.Command {
	var o client.NackOptions
	var delay time.Duration
	c := &cobra.Command{
		Use:   "nack",
		Short: "give leased items back whose work has failed",
		Long: `Gives items back that were popped with --lease, to the place they had. After too
many failures (16 unless configured otherwise) they go to the dead-letter queue.`,
		Example: `  # to be delivered again in a minute
  pq nack --delay 1m pq.jobs.ack.…

  # with the reason, by which "pq dead groups" counts what has died
  pq nack --reason 'the printer is out of ink' pq.jobs.ack.…`,
	}
	c.Flags().StringVarP(&o.Reason, "reason", "r", o.Reason, "`text` to be kept with the attempt")
	session.DurationVar(c.Flags(), &delay, "delay", "d", "`duration` before they are ready again")
	return settleLeases(s, c, func(i *client.Item) error {
		o.Delay = &delay
		return i.NackWith(s.Context, o)
	})
}

func backCommand(s *session.Session) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "back",
		Short: "give leased items back with nothing wrong with them",
		Long: `Gives items back that were popped with --lease, to the place they had, where they
are ready at once. This counts neither as a failure nor as an interruption. With
a reason it is kept as an attempt; without one nobody has begun with the items.`,
		Example: `  # the worker is stopped
  pq back --reason stopped pq.jobs.ack.…`,
	}
	c.Flags().StringVarP(&reason, "reason", "r", reason, "`text` to be kept with the attempt")
	return settleLeases(s, c, func(i *client.Item) error { return i.GiveBack(s.Context, reason) })
}

func extendCommand(s *session.Session) *cobra.Command {
	var progress string
	c := &cobra.Command{
		Use:   "extend",
		Short: "restart the leases of items",
		Long: `Extends the leases of items: they last as long from now as they did at first. With
--progress the items keep how far the work is, for whoever waits, and for the next
holder.`,
		Example: `  # while the work goes on
  pq extend pq.jobs.ack.…

  # and says how far it is
  pq extend --progress '3 of 9' pq.jobs.ack.…`,
	}
	c.Flags().StringVar(&progress, "progress", progress, "`text` to keep with the item: how far the work is")
	return settleLeases(s, c, func(i *client.Item) error {
		extend := i.Extend
		if progress != "" {
			extend = func(ctx context.Context) error { return i.Report(ctx, progress) }
		}
		err := extend(s.Context)
		if errors.Is(err, client.ErrProgressDropped) {
			s.Warn(err)
			err = nil
		}
		if err != nil {
			return err
		}
		return s.Answer(map[string]time.Time{"lease_expires": i.LeaseExpires()}, "the lease ends in %s", show.Span(time.Until(i.LeaseExpires()).Round(time.Second)))
	})
}

func terminateCommand(s *session.Session) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "terminate",
		Short: "send leased items to the dead-letter queue",
		Long: `Sends items that were popped with --lease to the dead-letter queue, because
another delivery would not help.`,
		Example: `  # with a reason
  pq terminate --reason 'no such address' pq.mails.ack.…`,
	}
	c.Flags().StringVarP(&reason, "reason", "r", reason, "`text` to be kept with the item")
	return settleLeases(s, c, func(i *client.Item) error { return i.Terminate(s.Context, reason) })
}
