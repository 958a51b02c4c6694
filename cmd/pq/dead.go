package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/deadletters"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

func deadCommand(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "dead", Args: cobra.ArbitraryArgs,
		Short: "list or requeue dead letters",
		Long:  `Dead letters are items that a queue has given up.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return session.UnknownCommand(c, args[0])
			}
			return session.Usagef("found no command behind dead: expected list or requeue")
		},
	}
	c.AddCommand(deadListCommand(s), deadRequeueCommand(s))
	return c
}

func deadListCommand(s *session.Session) *cobra.Command {
	count, shows := 20, deadShown{}
	c := &cobra.Command{
		Use: "list <queue>", Args: session.Arguments(1, 1),
		Short: "list the dead letters of a queue",
		Long: `Lists the items that a queue has given up: they failed too often, were terminated,
or outlived their TTL if the queue keeps those. If there are none the exit code is 3.`,
		Example: `  # why items failed
  pq dead list jobs

  # and what they are
  pq dead list jobs --bodies`,
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 0 {
				return session.Usagef("--count %d: expected 0 or more", count)
			}
			c, err := s.Connect()
			if err != nil {
				return err
			}
			holders, err := deadletters.Letters(s, c, args[0])
			if err != nil {
				return err
			}
			return listDead(s, holders, args[0], count, shows)
		},
	}
	f := c.Flags()
	f.IntVarP(&count, "count", "n", count, "list at most this `number`, 0 for all")
	f.BoolVarP(&shows.bodies, "bodies", "b", shows.bodies, "show payloads, too; with --json they always are")
	f.BoolVar(&shows.attempts, "attempts", shows.attempts, "show how the last lease without success ended")
	return c
}

// deadShown is what a list of dead letters shows besides the usual.
type deadShown struct{ bodies, attempts bool }

func listDead(s *session.Session, holders []*client.Queue, origin string, most int, shows deadShown) error {
	rows := [][]string{{"ID", "PRIORITY", "DIED", "DELIVERIES", "SIZE", "REASON"}}
	if shows.attempts {
		rows[0] = append(rows[0], "LAST ATTEMPT")
	}
	if shows.bodies {
		rows[0] = append(rows[0], "PAYLOAD")
	}
	var options []client.GetOption
	if shows.attempts {
		options = append(options, client.WithAttempts())
	}
	n := 0
	err := deadletters.Each(s, holders, origin, client.ListOptions{Attempts: shows.attempts}, func(dead *client.Queue, l *client.Listed) (bool, error) {
		var whole *client.Item
		if s.Global.JSON || shows.bodies {
			var err error
			if whole, err = dead.Get(s.Context, l.ID, options...); errors.Is(err, client.ErrNotFound) {
				return true, nil // it was taken meanwhile
			}
			if err != nil {
				return false, err
			}
		}
		n++
		if s.Global.JSON {
			return n != most, s.PrintJSON(show.Shown(whole))
		}
		row := []string{l.ID, fmt.Sprint(l.Priority), deadletters.Died(l.Dead, time.Now()), fmt.Sprint(l.Dead.Deliveries), show.Size(l.Size), l.Dead.Reason}
		if shows.attempts {
			row = append(row, show.LastAttempt(l))
		}
		if shows.bodies {
			row = append(row, show.Excerpt(whole.Payload))
		}
		rows = append(rows, row)
		return n != most, nil
	})
	switch {
	case err != nil || s.Global.JSON && n > 0:
		return err
	case n == 0:
		s.Say("%s has no dead letters", origin)
		return session.ExitError(session.ExitNothing)
	}
	return show.Table(s.Stdout, rows)
}
