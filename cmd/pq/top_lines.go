package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

// lines prints the queues again and again.
func (w *watching) lines(s *session) error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for n := 1; ; n++ {
		if n > 1 && !s.global.json {
			if err := s.print("\n"); err != nil {
				return err
			}
		}
		switch err := w.look(s, c); {
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

// look prints the queues once.
func (w *watching) look(s *session, c *client.Client) error {
	infos, err := queuesOf(s.ctx, c, "")
	if err != nil {
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
	all := figuresOf(infos, byName(infos), time.Now())
	sortFigures(all, w.sort, false)
	head := fmt.Sprintf("%s  prefix %s  %s", cmp.Or(s.nc.ConnectedUrlRedacted(), "not connected"), s.global.prefix, time.Now().Format(time.TimeOnly))
	lines := append([]string{head, totals(all), ""}, queueLines(all, lineColumns)...)
	return s.print(strings.Join(lines, "\n") + "\n")
}

func totals(all []*figures) string {
	return many(int64(len(all)), "queue") + "  " + sums(all)
}

func sums(all []*figures) string {
	var t client.Info
	for _, i := range all {
		t.Ready, t.Leased, t.Delayed = t.Ready+i.Ready, t.Leased+i.Leased, t.Delayed+i.Delayed
		t.Rates.Push += i.Rates.Push
		t.Rates.Pop += i.Rates.Pop
	}
	return fmt.Sprintf("%s ready  %s leased  %s delayed  %s pushes/s  %s pops/s",
		thousands(t.Ready), thousands(t.Leased), thousands(t.Delayed), rate(t.Rates.Push), rate(t.Rates.Pop))
}

var lineColumns = queueColumnsBut("dead", "size")
