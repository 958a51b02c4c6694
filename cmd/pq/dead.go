package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/subjects"
)

func deadCommand(s *session) *cobra.Command {
	c := &cobra.Command{
		Use: "dead", Args: cobra.ArbitraryArgs,
		Short: "list or requeue dead letters",
		Long:  `Dead letters are items that a queue has given up.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return usagef("found no command behind dead: expected list or requeue")
		},
	}
	c.AddCommand(deadListCommand(s), deadRequeueCommand(s))
	return c
}

// deadLetters are the queues that may hold the dead letters of a queue: its own,
// and the one in its configuration.
func (s *session) deadLetters(c *client.Client, queue string) ([]*client.Queue, error) {
	info, err := c.Queue(queue).Info(s.ctx)
	if err != nil && !errors.Is(err, client.ErrNotFound) {
		return nil, err
	}
	own := c.Queue(subjects.DeadLetter(queue))
	if info == nil || info.Config.DeadLetter == "" || info.Config.DeadLetter == own.Name() {
		return []*client.Queue{own}, nil
	}
	return []*client.Queue{c.Queue(info.Config.DeadLetter), own}, nil
}

func deadListCommand(s *session) *cobra.Command {
	count, show := 20, deadShown{}
	c := &cobra.Command{
		Use: "list <queue>", Args: arguments(1, 1),
		Short: "list the dead letters of a queue",
		Long: `Lists the items that a queue has given up: they failed too often, were terminated,
or outlived their TTL if the queue keeps those. If there are none the exit code is 3.`,
		Example: `  # why items failed
  pq dead list jobs

  # and what they are
  pq dead list jobs --bodies`,
		RunE: func(_ *cobra.Command, args []string) error {
			if count < 0 {
				return usagef("--count %d: expected 0 or more", count)
			}
			c, err := s.connect()
			if err != nil {
				return err
			}
			holders, err := s.deadLetters(c, args[0])
			if err != nil {
				return err
			}
			return s.listDead(holders, args[0], count, show)
		},
	}
	f := c.Flags()
	f.IntVarP(&count, "count", "n", count, "list at most this `number`, 0 for all")
	f.BoolVarP(&show.bodies, "bodies", "b", show.bodies, "show payloads, too; with --json they always are")
	f.BoolVar(&show.attempts, "attempts", show.attempts, "show how the last lease without success ended")
	return c
}

// deadShown is what a list of dead letters shows besides the usual.
type deadShown struct{ bodies, attempts bool }

// eachDead calls fn for the dead letters of a queue until fn returns false. Several queues
// may share a queue for dead letters.
func (s *session) eachDead(holders []*client.Queue, origin string, o client.ListOptions, fn func(*client.Queue, *client.Listed) (bool, error)) error {
	for _, dead := range holders {
		if more, err := s.eachDeadIn(dead, origin, o, fn); err != nil || !more {
			return err
		}
	}
	return nil
}

func (s *session) eachDeadIn(dead *client.Queue, origin string, o client.ListOptions, fn func(*client.Queue, *client.Listed) (bool, error)) (more bool, err error) {
	for l, err := range dead.List(s.ctx, o) {
		if errors.Is(err, client.ErrNotFound) {
			return true, nil // nothing has died yet
		}
		if err != nil {
			return false, err
		}
		if l.Dead == nil || l.Dead.Origin != origin {
			continue
		}
		if more, err := fn(dead, &l); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// died says how long ago an item died.
func died(d *client.Death, now time.Time) string {
	if d.At.IsZero() {
		return "-"
	}
	return span(max(0, now.Sub(d.At)).Round(time.Second)) + " ago"
}

func (s *session) listDead(holders []*client.Queue, origin string, most int, show deadShown) error {
	rows := [][]string{{"ID", "PRIORITY", "DIED", "DELIVERIES", "SIZE", "REASON"}}
	if show.attempts {
		rows[0] = append(rows[0], "LAST ATTEMPT")
	}
	if show.bodies {
		rows[0] = append(rows[0], "PAYLOAD")
	}
	var options []client.GetOption
	if show.attempts {
		options = append(options, client.WithAttempts())
	}
	n := 0
	err := s.eachDead(holders, origin, client.ListOptions{Attempts: show.attempts}, func(dead *client.Queue, l *client.Listed) (bool, error) {
		var whole *client.Item
		if s.global.json || show.bodies {
			var err error
			if whole, err = dead.Get(s.ctx, l.ID, options...); errors.Is(err, client.ErrNotFound) {
				return true, nil // it was taken meanwhile
			}
			if err != nil {
				return false, err
			}
		}
		n++
		if s.global.json {
			return n != most, s.printJSON(shown(whole))
		}
		row := []string{l.ID, fmt.Sprint(l.Priority), died(l.Dead, time.Now()), fmt.Sprint(l.Dead.Deliveries), size(l.Size), l.Dead.Reason}
		if show.attempts {
			row = append(row, lastAttempt(l))
		}
		if show.bodies {
			row = append(row, excerpt(whole.Payload))
		}
		rows = append(rows, row)
		return n != most, nil
	})
	switch {
	case err != nil || s.global.json && n > 0:
		return err
	case n == 0:
		s.say("%s has no dead letters", origin)
		return exitError(exitNothing)
	}
	return table(s.stdout, rows)
}
