package main

import (
	"github.com/spf13/cobra"
)

func purgeCommand(s *session) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "purge <queue>", Args: arguments(1, 1),
		Short: "remove all items of a queue",
		Long: `Removes all items of a queue, the leased and delayed ones too, after asking. The
queue and its configuration stay.`,
		Example: `  # in a script
  pq purge jobs --force`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.queue(args[0])
			if err != nil {
				return err
			}
			info, err := q.Info(s.ctx)
			if err != nil {
				return err
			}
			if err := s.confirm(force, "remove all %s of %s", many(info.Ready+info.Leased+info.Delayed, "item"), q.Name()); err != nil {
				return err
			}
			n, err := q.Purge(s.ctx)
			if err != nil {
				return err
			}
			return s.answer(map[string]int64{"purged": n}, "removed %s", many(n, "item"))
		},
	}
	f := c.Flags()
	f.BoolVarP(&force, "force", "f", force, "do not ask")
	return c
}

func deleteCommand(s *session) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "delete <queue>", Args: arguments(1, 1),
		Short: "delete a queue",
		Long:  `Deletes a queue with its items and its configuration, after asking.`,
		Example: `  # in a script
  pq delete jobs --force`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.queue(args[0])
			if err != nil {
				return err
			}
			info, err := q.Info(s.ctx)
			if err != nil {
				return err
			}
			if err := s.confirm(force, "delete %s with %s", q.Name(), many(info.Ready+info.Leased+info.Delayed, "item")); err != nil {
				return err
			}
			if err := q.Delete(s.ctx); err != nil {
				return err
			}
			return s.answer(map[string]string{"queue": q.Name()}, "deleted %s", q.Name())
		},
	}
	f := c.Flags()
	f.BoolVarP(&force, "force", "f", force, "do not ask")
	return c
}
