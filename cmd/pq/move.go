package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

func moveCommand(s *session.Session) *cobra.Command {
	var many bulkFlags
	c := &cobra.Command{
		Use: "move <queue> [<id>] <priority>", Args: session.Arguments(2, 3),
		Short: "give items another priority",
		Long: `Gives an item another priority. Its id stays, and so does its place among the
items of that priority. A leased item moves when its lease ends.` + whereHelp("ready"),
		Example: `  # to the front
  pq move jobs FBUBAX_Af0DSUlItAA -100

  # all of a customer
  pq move jobs -100 --where key=ann`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := many.check(len(args) - 2); err != nil {
				return err
			}
			text := args[len(args)-1]
			priority, err := session.ParsePriority(text)
			if err != nil {
				return session.Usagef("the priority %q: %w", text, err)
			}
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			if many.asked() {
				return many.run(s, []*client.Queue{q}, client.Bulk{Verb: client.BulkMove, Priority: priority}, "moved", "move")
			}
			if err := q.Move(s.Context, args[1], priority); err != nil {
				return err
			}
			return s.Answer(map[string]any{"id": args[1], "priority": priority}, "moved to priority %d", priority)
		},
	}
	many.define(c.Flags())
	return c
}

func cancelCommand(s *session.Session) *cobra.Command {
	var o client.CancelOptions
	c := &cobra.Command{
		Use: "cancel <queue> <id>...", Args: session.Arguments(2, session.AnyNumber),
		Short: "end items that nobody wants any more",
		Long: `Ends items, whether they wait or are worked on. The handler that works on one hears of
it at once, and the result of the item says that it was cancelled, and why. The exit
code is 1 if an item had ended before in another way.

"pq push" prints the id of an item. The same push with the same --id adds nothing, and
prints it again.`,
		Example: `  # nobody waits for it any more
  pq cancel jobs FBUBAX_Af0DSUlItAA --reason 'the customer has left'

  # unless a worker has begun with it
  pq cancel jobs FBUBAX_Af0DSUlItAA --spare-leased`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			ended := false
			for _, id := range args[1:] {
				done, err := q.Cancel(s.Context, id, o)
				if err != nil {
					return err
				}
				text := "cancelled " + id
				if !done.FinishedAt.IsZero() {
					text = fmt.Sprintf("%s had ended before: %s", id, done.Outcome)
					ended = ended || done.Outcome != protocol.FinishCancelled
				}
				answer := protocol.Cancelled{ID: id, Priority: done.Priority, Outcome: done.Outcome, FinishedAt: done.FinishedAt, Deliveries: int64(done.Deliveries)}
				if err := s.Answer(answer, "%s", text); err != nil {
					return err
				}
			}
			if ended {
				return session.ExitError(session.ExitFailed)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.Reason, "reason", o.Reason, "`text` for the result, and for who works on it")
	f.BoolVar(&o.SpareLeased, "spare-leased", o.SpareLeased, "not items that somebody works on")
	return c
}

func rmCommand(s *session.Session) *cobra.Command {
	var many bulkFlags
	var force bool
	c := &cobra.Command{
		Use: "rm <queue> [<id>...]", Aliases: []string{"remove"}, Args: session.Arguments(1, session.AnyNumber),
		Short: "remove items by their ids, or by a filter",
		Long:  `Removes items in any state. The consumer of a leased item finds its lease lost.` + whereHelp("ready"),
		Example: `  # one item
  pq rm jobs FBUBAX_Af0DSUlItAA

  # all delayed items that were pushed more than a day ago, after asking
  pq rm jobs --where state=delayed --where pushed_before=1d`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := many.check(len(args) - 1); err != nil {
				return err
			}
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			if many.asked() {
				return removeMany(s, q, &many, force)
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
	many.define(c.Flags())
	c.Flags().BoolVarP(&force, "force", "f", force, "with --where: do not ask")
	return c
}

// removeMany removes what fits, after it has asked.
func removeMany(s *session.Session, q *client.Queue, many *bulkFlags, force bool) error {
	if !force && !many.dryRun {
		where, err := many.filter(time.Now())
		if err != nil {
			return err
		}
		would, err := q.Bulk(s.Context, client.Bulk{Verb: client.BulkRemove, Where: where, DryRun: true})
		if err != nil {
			return err
		}
		if would.Done > 0 {
			if err := s.Confirm(force, "remove %s of %s", show.Many(would.Done, "item"), q.Name()); err != nil {
				return err
			}
		}
	}
	return many.run(s, []*client.Queue{q}, client.Bulk{Verb: client.BulkRemove}, "removed", "remove")
}

func revokeCommand(s *session.Session) *cobra.Command {
	var delay time.Duration
	var reason string
	var many bulkFlags
	c := &cobra.Command{
		Use: "revoke <queue> [<id>]", Args: session.Arguments(1, 2),
		Short: "take items away from their holders",
		Long: `Ends the lease that an item has now. Its holder has lost the item for good, also if
it finishes: it learns that when it extends the lease, or settles. The item is ready
again at once, and this counts neither as a failure nor as an interruption.` + whereHelp("leased"),
		Example: `  # its worker hangs
  pq revoke jobs FBUBAX_Af0DSUlItAA --reason 'the worker hangs'

  # and not before an hour has passed
  pq revoke jobs FBUBAX_Af0DSUlItAA --delay 1h

  # all that a worker holds
  pq revoke jobs --where holder=web1-4711`,
	}
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := many.check(len(args) - 1); err != nil {
			return err
		}
		q, err := s.Queue(args[0])
		if err != nil {
			return err
		}
		if many.asked() {
			b := client.Bulk{Verb: client.BulkRevoke, Reason: reason}
			if c.Flags().Changed("delay") {
				b.Delay = &delay
			}
			return many.run(s, []*client.Queue{q}, b, "revoked the leases of", "revoke the leases of")
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
	many.define(f)
	session.DurationVar(f, &delay, "delay", "", "`duration` until the item is ready again; otherwise it is at once")
	f.StringVar(&reason, "reason", reason, "`text` to keep with the attempt")
	return c
}
