package main

import (
	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

func purgeCommand(s *session.Session) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "purge <queue>", Args: session.Arguments(1, 1),
		Short: "remove all items of a queue",
		Long: `Removes all items of a queue, the leased and delayed ones too, after asking. The
queue and its configuration stay.`,
		Example: `  # in a script
  pq purge jobs --force`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			info, err := q.Info(s.Context)
			if err != nil {
				return err
			}
			if err := s.Confirm(force, "remove all %s of %s", show.Many(info.Ready+info.Leased+info.Delayed, "item"), q.Name()); err != nil {
				return err
			}
			n, err := q.Purge(s.Context)
			if err != nil {
				return err
			}
			return s.Answer(map[string]int64{"purged": n}, "removed %s", show.Many(n, "item"))
		},
	}
	f := c.Flags()
	f.BoolVarP(&force, "force", "f", force, "do not ask")
	return c
}

func deleteCommand(s *session.Session) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "delete <queue>", Args: session.Arguments(1, 1),
		Short: "delete a queue",
		Long:  `Deletes a queue with its items and its configuration, after asking.`,
		Example: `  # in a script
  pq delete jobs --force`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			info, err := q.Info(s.Context)
			if err != nil {
				return err
			}
			if err := s.Confirm(force, "delete %s with %s", q.Name(), show.Many(info.Ready+info.Leased+info.Delayed, "item")); err != nil {
				return err
			}
			if err := q.Delete(s.Context); err != nil {
				return err
			}
			return s.Answer(map[string]string{"queue": q.Name()}, "deleted %s", q.Name())
		},
	}
	f := c.Flags()
	f.BoolVarP(&force, "force", "f", force, "do not ask")
	return c
}
