package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
)

func lsCommand(s *session) *cobra.Command {
	var names bool
	var every time.Duration
	c := &cobra.Command{
		Use: "ls [<prefix>]", Args: arguments(0, 1),
		Short: "list the queues",
		Long: `Lists the queues with their counts, or those whose names begin with a prefix.
DEAD are the items of the queue for dead letters. If there are no queues the exit
code is 3.`,
		Example: `  # for scripts
  pq ls --names

  # those of one service
  pq ls billing-

  # every five seconds
  pq ls --watch=5s`,
		RunE: func(_ *cobra.Command, args []string) error {
			prefix := strings.Join(args, "")
			c, err := s.connect()
			if err != nil {
				return err
			}
			if names {
				return s.names(c, prefix)
			}
			return s.watch(every, func(ctx context.Context) (string, error) {
				infos, err := queuesOf(ctx, c, prefix)
				if err != nil {
					return "", err
				}
				if len(infos) == 0 && every == 0 {
					if prefix != "" {
						s.say("no queues that begin with %s", prefix)
					} else {
						s.say("no queues")
					}
					return "", exitError(exitNothing)
				}
				named, err := withHolders(ctx, c, infos)
				if err != nil {
					return "", err
				}
				return s.queueTable(figuresOf(infos, named, time.Now()))
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
func (s *session) queueTable(all []*figures) (string, error) {
	if s.global.json {
		var b strings.Builder
		for _, f := range all {
			q := listedQueue{Info: f.Info}
			if f.dead != none {
				q.Dead = &f.dead
			}
			if err := writeJSON(&b, q); err != nil {
				return "", err
			}
		}
		return b.String(), nil
	}
	if len(all) == 0 {
		return "no queues\n", nil
	}
	return strings.Join(queueLines(all, lsColumns), "\n") + "\n", nil
}

var lsColumns = queueColumnsBut("waiting", "push", "pop", "settle")

func (s *session) names(c *client.Client, prefix string) error {
	n := 0
	for names, err := range pagesOf(s.ctx, c, prefix) {
		if err != nil {
			return err
		}
		n += len(names)
		for _, name := range names {
			if err := s.answer(map[string]string{"queue": name}, "%s", name); err != nil {
				return err
			}
		}
	}
	if n == 0 {
		return exitError(exitNothing)
	}
	return nil
}

// oldest writes the age of the next item.
func oldest(i *client.Info) string {
	if i.Ready == 0 {
		return "-"
	}
	return span(seconds(i.Oldest).Round(time.Second))
}
