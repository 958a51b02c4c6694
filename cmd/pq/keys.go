package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

func keysCommand(s *session.Session) *cobra.Command {
	count, after := 20, ""
	c := &cobra.Command{
		Use: "keys <queue>", Args: session.Arguments(1, 1),
		Short: "list the keys of a queue",
		Long: `Lists the keys that have ready or leased items, or settings of their own, and why
the first item of each has to wait. If there are none the exit code is 3.`,
		Example: `  # whose items wait
  pq keys jobs

  # all keys, as JSON
  pq keys jobs -n 0 --json`,
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 0 {
				return session.Usagef("--count %d: expected 0 or more", count)
			}
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			return printKeys(s, q, after, count)
		},
	}
	f := c.Flags()
	f.IntVarP(&count, "count", "n", count, "list at most this `number`, 0 for all")
	f.StringVar(&after, "after", after, "start behind this `key`")
	return c
}

func printKeys(s *session.Session, q *client.Queue, after string, most int) error {
	rows := [][]string{{"READY", "LEASED", "LIMIT", "RATE", "WEIGHT", "WAITS FOR", "KEY"}}
	n, last, more := 0, "", false
	for k, err := range q.Keys(s.Context, after) {
		if err != nil {
			return err
		}
		if more = most > 0 && n == most; more {
			break
		}
		n++
		last = k.Key
		if s.Global.JSON {
			if err := s.PrintJSON(k); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, keyRow(&k))
	}
	switch {
	case n == 0:
		s.Say("no keys")
		return session.ExitError(session.ExitNothing)
	case s.Global.JSON:
		return nil
	}
	if err := show.Table(s.Stdout, rows); err != nil {
		return err
	}
	if more {
		s.Say("there are more: --count, or --after %q", last)
	}
	return nil
}

func keyRow(k *client.KeyInfo) []string {
	ready := fmt.Sprint(k.Ready)
	if k.More {
		ready += "+"
	}
	limit, rate := "-", "-"
	if k.Limit > 0 {
		limit = fmt.Sprint(k.Limit)
	}
	if k.Rate != "" {
		rate = k.Rate
	}
	waits := k.WaitsFor
	if waits == "" {
		waits = "-"
	}
	return []string{ready, fmt.Sprint(k.Leased), limit, rate, fmt.Sprint(k.Weight), waits, k.Key}
}
