package main

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
)

// watching are the flags of top.
type watching struct {
	interval time.Duration
	count    int
	sort     string
}

func topCommand(s *session) *cobra.Command {
	w := &watching{interval: time.Second, sort: "rate"}
	c := &cobra.Command{
		Use: "top", Args: arguments(0, 0),
		Short: "watch the queues",
		Long: `Shows the queues every second: ready, leased and delayed items, dead letters, the age
of the oldest, waiting pops, and the pushes, pops and settlements a second, averaged
over a minute. Lines have the age of the next item instead. Rates and waiting pops are
those of the bridge that answers.

In a terminal it fills the screen: enter shows the items of a queue, / filters by the
beginning of the name, s sorts, p pauses, r requeues dead letters, q quits, and ? lists
all keys. What changes something asks first. NO_COLOR=1 leaves the colors out. Numbers
behind ~ are old, because nobody answers. Of more than 1,000 queues it shows pages in the
order of the names, and asks only for what it shows.

Elsewhere, or with --count or --json, it prints lines, and Ctrl-C ends it.`,
		Example: `  # the longest queues first
  pq top --sort ready

  # once, into a file
  pq top --count 1 > queues.txt`,
		RunE: func(*cobra.Command, []string) error { return w.run(s) },
	}
	f := c.Flags()
	durationVar(f, &w.interval, "interval", "i", "`duration` between two updates")
	f.IntVarP(&w.count, "count", "n", w.count, "print lines, and end after this `number` of updates")
	f.StringVar(&w.sort, "sort", w.sort, "by this `column`: name, rate (all of them), or one such as ready")
	return c
}

// figures are what is known about a queue.
type figures struct {
	*client.Info
	dead int64   // items of its dead-letter queue; none if it is one itself
	age  float64 // of the oldest ready item, in seconds
	at   time.Time
}

// none stands for the dead letters of a queue that has none of its own.
const none = -1

// orders compare queues, the one with more first.
var orders = map[string]func(a, b *figures) int{
	"rate":    by(func(f *figures) float64 { return f.Rates.Push + f.Rates.Pop + f.Rates.Settle }),
	"ready":   by(func(f *figures) int64 { return f.Ready }),
	"leased":  by(func(f *figures) int64 { return f.Leased }),
	"delayed": by(func(f *figures) int64 { return f.Delayed }),
	"dead":    by(func(f *figures) int64 { return f.dead }),
	"oldest":  by(func(f *figures) float64 { return f.age }),
	"waiting": by(func(f *figures) int { return f.Waiting }),
	"push":    by(func(f *figures) float64 { return f.Rates.Push }),
	"pop":     by(func(f *figures) float64 { return f.Rates.Pop }),
	"settle":  by(func(f *figures) float64 { return f.Rates.Settle }),
	"name":    func(a, b *figures) int { return strings.Compare(a.Queue, b.Queue) },
}

// orderNames lists the orders for people.
const orderNames = "rate, ready, leased, delayed, dead, oldest, waiting, push, pop, settle or name"

func by[V cmp.Ordered](value func(*figures) V) func(a, b *figures) int {
	return func(a, b *figures) int { return cmp.Compare(value(b), value(a)) }
}

// sortFigures sorts queues, those that are equal by name.
func sortFigures(all []*figures, order string, reversed bool) {
	compare := orders[order]
	slices.SortFunc(all, func(a, b *figures) int {
		first := compare(a, b)
		if reversed {
			first = -first
		}
		return cmp.Or(first, strings.Compare(a.Queue, b.Queue))
	})
}

func (w *watching) run(s *session) error {
	if w.interval == 0 {
		return usagef("--interval 0s: expected more")
	}
	if w.count < 0 {
		return usagef("--count %d: expected 0 or more", w.count)
	}
	if orders[w.sort] == nil {
		return usagef("--sort %q: expected %s", w.sort, orderNames)
	}
	if tty := s.tty(); tty != nil && w.count == 0 && !s.global.json {
		return w.full(s, tty)
	}
	return w.lines(s)
}
