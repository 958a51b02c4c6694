package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
)

func lsCommand(s *session) *cobra.Command {
	var names bool
	c := &cobra.Command{
		Use: "ls", Args: arguments(0, 0),
		Short: "list the queues",
		Long:  `Lists the queues with their counts. If there are none the exit code is 3.`,
		Example: `  # for scripts
  pq ls --names`,
		RunE: func(*cobra.Command, []string) error {
			c, err := s.connect()
			if err != nil {
				return err
			}
			if names {
				return s.names(c)
			}
			infos, err := allQueues(s.ctx, c)
			if err != nil {
				return err
			}
			if len(infos) == 0 {
				s.say("no queues")
				return exitError(exitNothing)
			}
			if s.global.json {
				for _, info := range infos {
					if err := s.printJSON(info); err != nil {
						return err
					}
				}
				return nil
			}
			rows := [][]string{{"QUEUE", "READY", "LEASED", "DELAYED", "SIZE", "OLDEST", ""}}
			for _, i := range infos {
				rows = append(rows, []string{
					i.Queue, thousands(i.Ready), thousands(i.Leased), thousands(i.Delayed), size(i.Bytes), oldest(i), paused(i),
				})
			}
			return table(s.stdout, rows)
		},
	}
	f := c.Flags()
	f.BoolVar(&names, "names", names, "print names only")
	return c
}

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

func oldest(i *client.Info) string {
	if i.Ready == 0 {
		return "-"
	}
	return span(seconds(i.Oldest).Round(time.Second))
}

func paused(i *client.Info) string {
	if i.Paused {
		return "paused"
	}
	return ""
}
