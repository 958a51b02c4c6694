package main

import (
	"time"

	"github.com/pqbridge/pqbridge/client"
)

const settleArgs = "<ack subject>..."

// settling makes a command that settles leases by their subjects.
func settling(name, short, long string, examples []example, flags func(*flags), settle func(*session, *client.Item) error) *command {
	return &command{
		name: name, args: settleArgs, min: 1, max: anyNumber,
		short: short, long: long, examples: examples, flags: flags,
		run: func(s *session, args []string) error {
			c, err := s.connect()
			if err != nil {
				return err
			}
			for _, subject := range args {
				item, err := c.Attach(subject)
				if err != nil {
					return &usageError{error: err}
				}
				if err := settle(s, item); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func ackCommand() *command {
	return settling("ack", "settle leased items: they are done with",
		`Settles items that were popped with --lease, by the subjects that pop showed.
Fails when the lease is lost: then somebody else has the item, or will.`,
		[]example{
			{"in a script", "pq pop jobs --lease 1m --json > item && ./work item && pq ack $(jq -r .ack item)"},
		}, nil,
		func(s *session, i *client.Item) error { return i.Ack(s.ctx) })
}

func nackCommand() *command {
	var delay time.Duration
	return settling("nack", "give leased items back, to be tried again",
		`Gives items back that were popped with --lease, at the place they had. After too
many deliveries (16 unless configured otherwise) they go to the dead-letter queue.`,
		[]example{{"to be tried again in a minute", "pq nack --delay 1m pq.jobs.ack.…"}},
		func(f *flags) { f.duration(&delay, "delay,d", "keep it back for this `duration`") },
		func(s *session, i *client.Item) error {
			if delay < 0 {
				return usagef("--delay %s: expected a duration such as 30s or 1h30m", delay)
			}
			return i.NackWithDelay(s.ctx, delay)
		})
}

func extendCommand() *command {
	return settling("extend", "start the leases of items anew",
		`Extends the leases of items: they last as long from now as they did at first.`,
		nil, nil,
		func(s *session, i *client.Item) error {
			if err := i.Extend(s.ctx); err != nil {
				return err
			}
			return s.answer(map[string]time.Time{"lease_expires": i.LeaseExpires()}, "%s", until(i.LeaseExpires()))
		})
}

func terminateCommand() *command {
	var reason string
	return settling("terminate", "send leased items to the dead-letter queue",
		`Gives items up that were popped with --lease: they go to the dead-letter queue,
because trying again would not help.`,
		[]example{{"with a reason", "pq terminate --reason 'no such address' pq.mails.ack.…"}},
		func(f *flags) { f.text(&reason, "reason,r", "`text` to be kept with the item") },
		func(s *session, i *client.Item) error { return i.Terminate(s.ctx, reason) })
}
