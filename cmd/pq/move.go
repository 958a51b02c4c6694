package main

import (
	"github.com/spf13/cobra"
)

func moveCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "move <queue> <id> <priority>", Args: arguments(3, 3),
		Short: "give an item another priority",
		Long: `Gives an item another priority. Its id stays, and so does its place among the
items of that priority. A leased item moves when its lease ends.`,
		Example: `  # to the front
  pq move jobs FBUBAX_Af0DSUlItAA -100`,
		RunE: func(_ *cobra.Command, args []string) error {
			priority, err := parsePriority(args[2])
			if err != nil {
				return usagef("the priority %q: %w", args[2], err)
			}
			q, err := s.queue(args[0])
			if err != nil {
				return err
			}
			if err := q.Move(s.ctx, args[1], priority); err != nil {
				return err
			}
			return s.answer(map[string]any{"id": args[1], "priority": priority}, "moved to priority %d", priority)
		},
	}
}

func rmCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "rm <queue> <id>...", Args: arguments(2, anyNumber),
		Short: "remove items by their ids",
		Long:  `Removes items in any state. The consumer of a leased item finds its lease lost.`,
		Example: `  # one item
  pq rm jobs FBUBAX_Af0DSUlItAA

  # all delayed items
  pq list jobs --state delayed -n 0 --json | jq -r .id | xargs pq rm jobs`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.queue(args[0])
			if err != nil {
				return err
			}
			for _, id := range args[1:] {
				if err := q.Remove(s.ctx, id); err != nil {
					return err
				}
				if err := s.answer(map[string]string{"id": id}, "removed %s", id); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
