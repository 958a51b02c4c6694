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
		Use: "ls", Args: arguments(0, 0),
		Short: "list the queues",
		Long: `Lists the queues with their counts. DEAD are the items of the queue for dead letters.
If there are no queues the exit code is 3.`,
		Example: `  # for scripts
  pq ls --names

  # every five seconds
  pq ls --watch=5s`,
		RunE: func(*cobra.Command, []string) error {
			c, err := s.connect()
			if err != nil {
				return err
			}
			if names {
				return s.names(c)
			}
			return s.watch(every, func(ctx context.Context) (string, error) {
				infos, err := allQueues(ctx, c)
				if err != nil {
					return "", err
				}
				if len(infos) == 0 && every == 0 {
					s.say("no queues")
					return "", exitError(exitNothing)
				}
				return s.queueTable(figuresOf(infos, byName(infos), time.Now()))
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

func (s *session) names(c *client.Client) error {
	n := 0
	for name, err := range c.Queues(s.ctx) {
		if err != nil {
			return err
		}
		n++
		if err := s.answer(map[string]string{"queue": name}, "%s", name); err != nil {
			return err
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
