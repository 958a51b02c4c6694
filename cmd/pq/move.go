package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

func moveCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "move <queue> <id> <priority>", Args: session.Arguments(3, 3),
		Short: "give an item another priority",
		Long: `Gives an item another priority. Its id stays, and so does its place among the
items of that priority. A leased item moves when its lease ends.`,
		Example: `  # to the front
  pq move jobs FBUBAX_Af0DSUlItAA -100`,
		RunE: func(_ *cobra.Command, args []string) error {
			priority, err := session.ParsePriority(args[2])
			if err != nil {
				return session.Usagef("the priority %q: %w", args[2], err)
			}
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			if err := q.Move(s.Context, args[1], priority); err != nil {
				return err
			}
			return s.Answer(map[string]any{"id": args[1], "priority": priority}, "moved to priority %d", priority)
		},
	}
}

func rmCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "rm <queue> <id>...", Args: session.Arguments(2, session.AnyNumber),
		Short: "remove items by their ids",
		Long:  `Removes items in any state. The consumer of a leased item finds its lease lost.`,
		Example: `  # one item
  pq rm jobs FBUBAX_Af0DSUlItAA

  # all delayed items
  pq list jobs --state delayed -n 0 --json | jq -r .id | xargs pq rm jobs`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			for _, id := range args[1:] {
				if err := q.Remove(s.Context, id); err != nil {
					return err
				}
				if err := s.Answer(map[string]string{"id": id}, "removed %s", id); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func revokeCommand(s *session.Session) *cobra.Command {
	var delay time.Duration
	var reason string
	c := &cobra.Command{
		Use: "revoke <queue> <id>", Args: session.Arguments(2, 2),
		Short: "take an item away from its holder",
		Long: `Ends the lease that an item has now. Its holder has lost the item for good, also if
it finishes: it learns that when it extends the lease, or settles. The item comes back
as the queue's backoff says, and dies if this was its last delivery.`,
		Example: `  # its worker hangs
  pq revoke jobs FBUBAX_Af0DSUlItAA --reason 'the worker hangs'

  # and not before an hour has passed
  pq revoke jobs FBUBAX_Af0DSUlItAA --delay 1h`,
	}
	c.RunE = func(_ *cobra.Command, args []string) error {
		q, err := s.Queue(args[0])
		if err != nil {
			return err
		}
		item, err := q.Get(s.Context, args[1])
		if err != nil {
			return err
		}
		o := client.RevokeOptions{Reason: reason}
		if item.State == client.Leased {
			o.Fence = item.Fence // of this holder, and not of the next one
		}
		if c.Flags().Changed("delay") {
			o.Delay = &delay
		}
		if err := q.Revoke(s.Context, args[1], o); err != nil {
			return err
		}
		return s.Answer(map[string]string{"id": args[1], "holder": item.Holder}, "revoked the lease of %s%s", args[1], show.HeldBy(item.Holder))
	}
	f := c.Flags()
	session.DurationVar(f, &delay, "delay", "", "`duration` until the item is ready again; otherwise the queue's backoff says")
	f.StringVar(&reason, "reason", reason, "`text` to keep with the attempt")
	return c
}
