package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	last     []*client.Info // what was seen last
}

func topCommand(s *session) *cobra.Command {
	w := &watching{interval: time.Second, sort: "rate"}
	c := &cobra.Command{
		Use: "top", Args: arguments(0, 0),
		Short: "watch the queues",
		Long: `Shows the queues every second: ready, leased and delayed items, the age of the next
one, waiting pops, and the pushes, pops and settlements a second, averaged over a
minute. Rates and waiting pops are those of the bridge that answers. Ctrl-C ends it.`,
		Example: `  # the longest queues first
  pq top --sort ready

  # once, into a file
  pq top --count 1 > queues.txt`,
		RunE: func(_ *cobra.Command, args []string) error { return w.run(s, args) },
	}
	f := c.Flags()
	durationVar(f, &w.interval, "interval", "i", "`duration` between two updates")
	f.IntVarP(&w.count, "count", "n", w.count, "end after this `number` of updates")
	f.StringVar(&w.sort, "sort", w.sort, "by this `column`: rate, ready, oldest or name")
	return c
}

var orders = map[string]func(a, b *client.Info) int{
	"rate":   func(a, b *client.Info) int { return cmp.Compare(activity(b), activity(a)) },
	"ready":  func(a, b *client.Info) int { return cmp.Compare(b.Ready, a.Ready) },
	"oldest": func(a, b *client.Info) int { return cmp.Compare(b.Oldest, a.Oldest) },
	"name":   func(a, b *client.Info) int { return strings.Compare(a.Queue, b.Queue) },
}

func activity(i *client.Info) float64 { return i.Rates.Push + i.Rates.Pop + i.Rates.Settle }

// Control sequences of a terminal.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // another screen, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	clearLine   = "\x1b[K\n"
	clearBelow  = "\x1b[J"
)

func (w *watching) run(s *session, _ []string) (err error) {
	if w.interval == 0 {
		return usagef("--interval 0s: expected more")
	}
	if w.count < 0 {
		return usagef("--count %d: expected 0 or more", w.count)
	}
	if orders[w.sort] == nil {
		return usagef("--sort %q: expected rate, ready, oldest or name", w.sort)
	}
	c, err := s.connect()
	if err != nil {
		return err
	}
	live := interactive(s.stdout) && w.count == 0 && !s.global.json
	if live {
		if err := s.print(enterScreen); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.print(leaveScreen)) }()
	}
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for n := 1; ; n++ {
		if n > 1 && !live && !s.global.json {
			if err := s.print("\n"); err != nil {
				return err
			}
		}
		switch err := w.look(s, c, live); {
		case err == nil:
		case n == 1, n == w.count, s.ctx.Err() != nil:
			return interrupted(s.ctx, err)
		default:
			s.warn(err)
		}
		if n == w.count {
			return nil
		}
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return interrupted(s.ctx, s.ctx.Err())
		}
	}
}

// interrupted returns nil for Ctrl-C, which is how a user ends an endless command.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return nil
	}
	return err
}

// look shows the queues once. While the bridge is away, a screen shows the last answer and
// the error.
func (w *watching) look(s *session, c *client.Client, live bool) error {
	infos, err := allQueues(s.ctx, c)
	switch {
	case err == nil:
		w.last = infos
	case live && s.ctx.Err() == nil:
		infos = w.last
	default:
		return err
	}
	if s.global.json {
		for _, info := range infos {
			if err := s.printJSON(info); err != nil {
				return err
			}
		}
		return nil
	}
	slices.SortStableFunc(infos, orders[w.sort])
	head := fmt.Sprintf("%s  prefix %s  %s", cmp.Or(s.nc.ConnectedUrlRedacted(), "not connected"), s.global.prefix, time.Now().Format(time.TimeOnly))
	if err != nil {
		head += "  " + err.Error()
	}
	lines := append([]string{head, totals(infos), ""}, topTable(infos)...)
	if !live {
		return s.print(strings.Join(lines, "\n") + "\n")
	}
	columns, most := screen(s.stdout)
	if most > 1 && len(lines) > most-1 {
		lines = append(lines[:most-2], fmt.Sprintf("… %d more", len(lines)-most+2))
	}
	return s.print(home + strings.Join(cut(lines, columns), clearLine) + clearLine + clearBelow)
}

// cut shortens lines to the width of the screen.
func cut(lines []string, columns int) []string {
	for i, line := range lines {
		if runes := []rune(line); columns > 0 && len(runes) > columns {
			lines[i] = string(runes[:columns])
		}
	}
	return lines
}

func totals(infos []*client.Info) string {
	var t client.Info
	for _, i := range infos {
		t.Ready, t.Leased, t.Delayed = t.Ready+i.Ready, t.Leased+i.Leased, t.Delayed+i.Delayed
		t.Rates.Push += i.Rates.Push
		t.Rates.Pop += i.Rates.Pop
	}
	return fmt.Sprintf("%s  %s ready  %s leased  %s delayed  %s pushes/s  %s pops/s",
		many(int64(len(infos)), "queue"), thousands(t.Ready), thousands(t.Leased), thousands(t.Delayed), rate(t.Rates.Push), rate(t.Rates.Pop))
}

func topTable(infos []*client.Info) []string {
	rows := [][]string{{"QUEUE", "READY", "LEASED", "DELAYED", "OLDEST", "WAITING", "PUSH/S", "POP/S", "SETTLE/S", ""}}
	for _, i := range infos {
		rows = append(rows, []string{
			i.Queue, thousands(i.Ready), thousands(i.Leased), thousands(i.Delayed), oldest(i), thousands(int64(i.Waiting)),
			rate(i.Rates.Push), rate(i.Rates.Pop), rate(i.Rates.Settle), paused(i),
		})
	}
	return columns(rows)
}
