package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// popping are the flags of pop and peek.
type popping struct {
	options []client.PopOption
	max     bool
	count   int
	verbose bool
	named   bool // with an id: repeating it returns the same items
}

func popCommand(s *session.Session) *cobra.Command {
	p := &popping{}
	c := &cobra.Command{
		Use: "pop <queue>", Args: session.Arguments(1, 1),
		Short: "remove or lease the next items of a queue",
		Long: `Removes the item with the lowest priority number and prints its payload as a line.
With --lease the item stays and is delivered again unless "pq ack" settles it in
time. On an empty queue the exit code is 3.`,
		Example: `  # the most urgent item
  pq pop jobs

  # up to 10 of the least urgent, waiting a minute for the first
  pq pop jobs --max -n 10 --wait 1m

  # with a lease, as JSON
  pq pop jobs --lease 5m --json

  # only priorities 1 to 5
  pq pop jobs --band 1..5

  # safe to repeat when the answer was lost
  pq pop jobs --id shift-17`,
		RunE: func(_ *cobra.Command, args []string) error {
			return p.run(s, args[0], !p.named, (*client.Queue).PopBatch)
		},
	}
	f := c.Flags()
	p.flags(f)
	f.FuncP("lease", "l", "lease the items for this `duration`", func(s string) error {
		d, err := session.ParseDuration(s)
		p.options = append(p.options, client.Lease(d))
		return err
	})
	f.FuncP("id", "i", "`text` that names the pop: repeating it returns the same items", func(s string) error {
		p.options = append(p.options, client.PopID(s))
		p.named = true
		return nil
	})
	return c
}

func peekCommand(s *session.Session) *cobra.Command {
	p := &popping{}
	c := &cobra.Command{
		Use: "peek <queue>", Args: session.Arguments(1, 1),
		Short: "look at the next items of a queue",
		Long: `Prints the payload that "pq pop" would take, and leaves it there. On an empty
queue the exit code is 3.`,
		Example: `  # the most urgent item, with its id and headers
  pq peek jobs -v

  # the 5 least urgent ones as JSON
  pq peek jobs --max -n 5 --json`,
		RunE: func(_ *cobra.Command, args []string) error {
			return p.run(s, args[0], false, (*client.Queue).PeekBatch)
		},
	}
	p.flags(c.Flags())
	return c
}

func (p *popping) flags(f *pflag.FlagSet) {
	f.BoolVar(&p.max, "max", p.max, "the highest priority number first")
	p.count = 1
	f.IntVarP(&p.count, "count", "n", p.count, "up to this `number` of items")
	f.FuncP("wait", "w", "wait up to this `duration` for something to arrive", func(s string) error {
		d, err := session.ParseDuration(s)
		p.options = append(p.options, client.Wait(d))
		return err
	})
	f.Func("band", "only priorities `low..high`; either end may be left out", p.band)
	f.BoolVarP(&p.verbose, "verbose", "v", p.verbose, "print ids, headers and the like, too")
}

func (p *popping) band(s string) error {
	option, err := session.ParseBand(s)
	p.options = append(p.options, option)
	return err
}

// popFunc is a pop or a peek.
type popFunc = func(*client.Queue, context.Context, client.End, int, ...client.PopOption) ([]*client.Item, error)

func (p *popping) run(s *session.Session, queue string, again bool, pop popFunc) error {
	if p.count < 1 {
		return session.Usagef("--count %d: expected 1 or more", p.count)
	}
	q, err := s.Queue(queue)
	if err != nil {
		return err
	}
	end := client.Min
	if p.max {
		end = client.Max
	}
	for left := p.count; left > 0; {
		items, err := pop(q, s.Context, end, left, p.options...)
		if errors.Is(err, client.ErrEmpty) && left < p.count {
			return nil
		}
		if err != nil {
			return err
		}
		for _, i := range items {
			if err := p.show(s, i); err != nil {
				return err
			}
		}
		if !again {
			return nil
		}
		// The bridge may cut a batch short. pq does not wait for the remaining items.
		left -= len(items)
		p.options = append(p.options, client.Wait(0))
	}
	return nil
}

func (p *popping) show(s *session.Session, i *client.Item) error {
	switch {
	case s.Global.JSON:
		return s.PrintJSON(show.Shown(i))
	case p.verbose:
		if err := s.Print(show.Shown(i).Describe() + "\n"); err != nil {
			return err
		}
	}
	if err := s.PrintPayload(i.Payload); err != nil {
		return err
	}
	if i.Leased() && !p.verbose {
		s.Say("%s is leased for %s; settle it: pq ack %s", i.ID, show.Span(time.Until(i.LeaseExpires()).Round(time.Second)), i.AckSubject())
	}
	return nil
}
