package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// watching are the flags of top.
type watching struct {
	interval time.Duration
	count    int
	sort     string
}

func Command(s *session.Session) *cobra.Command {
	w := &watching{interval: time.Second, sort: "rate"}
	c := &cobra.Command{
		Use: "top", Args: session.Arguments(0, 0),
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
	session.DurationVar(f, &w.interval, "interval", "i", "`duration` between two updates")
	f.IntVarP(&w.count, "count", "n", w.count, "print lines, and end after this `number` of updates")
	f.StringVar(&w.sort, "sort", w.sort, "by this `column`: name, rate (all of them), or one such as ready")
	return c
}

// orderNames lists the orders for people.
const orderNames = "rate, ready, leased, delayed, dead, oldest, waiting, push, pop, settle or name"

func (w *watching) run(s *session.Session) error {
	if w.interval == 0 {
		return session.Usagef("--interval 0s: expected more")
	}
	if w.count < 0 {
		return session.Usagef("--count %d: expected 0 or more", w.count)
	}
	if figures.Orders[w.sort] == nil {
		return session.Usagef("--sort %q: expected %s", w.sort, orderNames)
	}
	if tty := s.Tty(); tty != nil && w.count == 0 && !s.Global.JSON {
		return w.full(s, tty)
	}
	return w.lines(s)
}

// lines prints the queues again and again.
func (w *watching) lines(s *session.Session) error {
	c, err := s.Connect()
	if err != nil {
		return err
	}
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for n := 1; ; n++ {
		if n > 1 && !s.Global.JSON {
			if err := s.Print("\n"); err != nil {
				return err
			}
		}
		switch err := w.look(s, c); {
		case err == nil:
		case n == 1, n == w.count, s.Context.Err() != nil:
			return session.Interrupted(s.Context, err)
		default:
			s.Warn(err)
		}
		if n == w.count {
			return nil
		}
		select {
		case <-ticker.C:
		case <-s.Context.Done():
			return session.Interrupted(s.Context, s.Context.Err())
		}
	}
}

// look prints the queues once.
func (w *watching) look(s *session.Session, c *client.Client) error {
	infos, left, err := figures.QueuesOf(s.Context, c, "")
	if err != nil {
		return err
	}
	if s.Global.JSON {
		for _, info := range infos {
			if err := s.PrintJSON(info); err != nil {
				return err
			}
		}
		return nil
	}
	all := figures.Of(infos, figures.ByName(infos), time.Now())
	figures.Sort(all, w.sort, false)
	head := fmt.Sprintf("%s  prefix %s  %s", cmp.Or(natsurl.Of(s.NC), "not connected"), s.Global.Prefix, time.Now().Format(time.TimeOnly))
	lines := append(append([]string{head, totals(all)}, left.Lines()...), "")
	lines = append(lines, figures.QueueLines(all, LineColumns)...)
	return s.Print(strings.Join(lines, "\n") + "\n")
}

func totals(all []*figures.Queue) string {
	return show.Many(int64(len(all)), "queue") + "  " + sums(all)
}

func sums(all []*figures.Queue) string {
	var t client.Info
	for _, i := range all {
		t.Ready, t.Leased, t.Delayed = t.Ready+i.Ready, t.Leased+i.Leased, t.Delayed+i.Delayed
		t.Rates.Push += i.Rates.Push
		t.Rates.Pop += i.Rates.Pop
	}
	return fmt.Sprintf("%s ready  %s leased  %s delayed  %s pushes/s  %s pops/s",
		show.Thousands(t.Ready), show.Thousands(t.Leased), show.Thousands(t.Delayed), show.Rate(t.Rates.Push), show.Rate(t.Rates.Pop))
}

var LineColumns = figures.QueueColumnsBut("dead", "size")
