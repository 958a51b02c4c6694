package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/subjects"
)

func lsCommand(s *session.Session) *cobra.Command {
	var names bool
	var every time.Duration
	c := &cobra.Command{
		Use: "ls [<prefix>]", Args: session.Arguments(0, 1), SuggestFor: []string{"queues", "status"},
		Short: "list the queues",
		Long: `Lists the queues with their counts, or those whose names begin with a prefix.
DEAD are the items of the queue for dead letters. "held 3m, <holder>" is the oldest
lease where items are ready and no worker has taken one for two minutes: workers
that hang, or long jobs. "failing 5" are items that have failed, where none succeeds,
"5 failed" those among delayed ones, where others may. Queues that do not exist and
for which pops wait are named before the list. If there are no queues the exit code is 3.`,
		Example: `  # for scripts
  pq ls --names

  # those of one service
  pq ls billing-

  # every five seconds
  pq ls --watch=5s`,
		RunE: func(_ *cobra.Command, args []string) error {
			prefix := strings.Join(args, "")
			c, err := s.Connect()
			if err != nil {
				return err
			}
			if names {
				return printNames(s, c, prefix)
			}
			return watch(s, every, func(ctx context.Context) (string, error) {
				infos, left, err := figures.QueuesOf(ctx, c, prefix)
				if err != nil {
					return "", err
				}
				if every == 0 {
					for _, line := range left.Lines() {
						s.Say("%s", line)
					}
				}
				if len(infos) == 0 && every == 0 {
					if prefix != "" {
						s.Say("no queues that begin with %s", prefix)
					} else {
						s.Say("no queues")
					}
					return "", session.ExitError(session.ExitNothing)
				}
				named, err := figures.WithHolders(ctx, c, infos)
				if err != nil {
					return "", err
				}
				return queueTable(s, figures.Of(infos, named, time.Now()))
			})
		},
	}
	f := c.Flags()
	f.BoolVar(&names, "names", names, "print names only")
	watchVar(f, &every)
	return c
}

// listedQueue is a queue in JSON.
type listedQueue struct {
	*client.Info
	Dead *int64 `json:"dead,omitempty"` // missing for a queue of dead letters
}

// queueTable writes queues for people, or an object a line.
func queueTable(s *session.Session, all []*figures.Queue) (string, error) {
	if s.Global.JSON {
		var b strings.Builder
		for _, f := range all {
			q := listedQueue{Info: f.Info}
			if f.Dead != figures.None {
				q.Dead = &f.Dead
			}
			if err := show.WriteJSON(s.OfJSON(&b), q); err != nil {
				return "", err
			}
		}
		return b.String(), nil
	}
	if len(all) == 0 {
		return "no queues\n", nil
	}
	return strings.Join(figures.QueueLines(all, lsColumns), "\n") + "\n", nil
}

var lsColumns = figures.QueueColumnsBut("waiting", "push", "pop", "settle")

func printNames(s *session.Session, c *client.Client, prefix string) error {
	n := 0
	var left figures.Unasked
	for page, err := range figures.PagesOf(s.Context, c, prefix) {
		if err != nil {
			return err
		}
		for _, name := range page.Queues {
			if subjects.CheckStored(name) != nil {
				left.Strange = append(left.Strange, name)
				continue
			}
			n++
			if err := s.Answer(map[string]string{"queue": name}, "%s", name); err != nil {
				return err
			}
		}
	}
	for _, line := range left.Lines() {
		s.Say("%s", line)
	}
	if n == 0 {
		return session.ExitError(session.ExitNothing)
	}
	return nil
}
