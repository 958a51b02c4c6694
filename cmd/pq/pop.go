package main

import (
	"context"
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// popping are the flags of pop and peek.
type popping struct {
	options []client.PopOption
	max     bool
	count   int
	verbose bool
	named   bool // with an id: repeating it answers the same items
}

func popCommand() *command {
	p := &popping{}
	return &command{
		name: "pop", args: "<queue>", min: 1, max: 1,
		short: "take items from a queue",
		long: `Takes the item with the lowest priority number and prints its payload, as a line.
The item is gone then; with --lease it comes back unless "pq ack" is called in
time. On an empty queue the exit code is 3.`,
		examples: []example{
			{"the most urgent item", "pq pop jobs"},
			{"up to 10 of the least urgent, waiting a minute for the first", "pq pop jobs --max -n 10 --wait 1m"},
			{"on loan, with all there is to know", "pq pop jobs --lease 5m --json"},
			{"only priorities 1 to 5", "pq pop jobs --band 1..5"},
			{"a lost answer loses nothing: repeat it", "pq pop jobs --id shift-17"},
		},
		flags: func(f *flags) {
			p.flags(f)
			f.each(func(s string) error {
				d, err := parseDuration(s)
				p.options = append(p.options, client.Lease(d))
				return err
			}, "lease,l", "take it on loan for this `duration`")
			f.each(func(s string) error {
				p.options = append(p.options, client.PopID(s))
				p.named = true
				return nil
			}, "id,i", "`text` that names the pop: repeating it answers the same items")
		},
		run: func(s *session, args []string) error { return p.run(s, args[0], !p.named, (*client.Queue).PopBatch) },
	}
}

func peekCommand() *command {
	p := &popping{}
	return &command{
		name: "peek", args: "<queue>", min: 1, max: 1,
		short: "look at the next items of a queue",
		long: `Prints the payload that "pq pop" would take, and leaves it there. On an empty
queue the exit code is 3.`,
		examples: []example{
			{"the most urgent item, with all there is to know", "pq peek jobs -v"},
			{"the 5 least urgent ones as JSON", "pq peek jobs --max -n 5 --json"},
		},
		flags: p.flags,
		run:   func(s *session, args []string) error { return p.run(s, args[0], false, (*client.Queue).PeekBatch) },
	}
}

func (p *popping) flags(f *flags) {
	f.yes(&p.max, "max", "the highest priority number first")
	p.count = 1
	f.number(&p.count, "count,n", "take up to this `number` of items")
	f.each(func(s string) error {
		d, err := parseDuration(s)
		p.options = append(p.options, client.Wait(d))
		return err
	}, "wait,w", "wait up to this `duration` for something to arrive")
	f.each(p.band, "band", "only priorities `low..high`; either end may be left out")
	f.yes(&p.verbose, "verbose,v", "print all there is to know about the items")
}

func (p *popping) band(s string) error {
	option, err := parseBand(s)
	p.options = append(p.options, option)
	return err
}

// takeFunc is a pop or a peek.
type takeFunc = func(*client.Queue, context.Context, client.End, int, ...client.PopOption) ([]*client.Item, error)

func (p *popping) run(s *session, queue string, again bool, take takeFunc) error {
	if p.count < 1 {
		return usagef("--count %d: expected 1 or more", p.count)
	}
	q, err := s.queue(queue)
	if err != nil {
		return err
	}
	end := client.Min
	if p.max {
		end = client.Max
	}
	for left := p.count; left > 0; {
		items, err := take(q, s.ctx, end, left, p.options...)
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
		// The bridge cuts batches short; what it leaves is not waited for.
		left -= len(items)
		p.options = append(p.options, client.Wait(0))
	}
	return nil
}

func (p *popping) show(s *session, i *client.Item) error {
	switch {
	case s.global.json:
		return s.printJSON(shown(i))
	case p.verbose:
		if err := s.print(shown(i).describe() + "\n"); err != nil {
			return err
		}
	}
	if err := s.print(string(line(i.Payload))); err != nil {
		return err
	}
	if i.Leased() && !p.verbose {
		s.say("%s is leased for %s; settle it: pq ack %s", i.ID, span(time.Until(i.LeaseExpires()).Round(time.Second)), i.AckSubject())
	}
	return nil
}
