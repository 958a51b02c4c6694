package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/deadletters"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

func deadRequeueCommand(s *session.Session) *cobra.Command {
	var all bool
	var many bulkFlags
	var spread time.Duration
	c := &cobra.Command{
		Use: "requeue <queue> [<id>...]", Args: session.Arguments(1, session.AnyNumber),
		Short: "push dead letters to their queue again",
		Long: `Takes dead letters out of the dead-letter queue and pushes them to the queue they
come from, with their priority, key and headers. They are new items there: their
deliveries count from 0, and they stand behind the others of their priority.

Each goes in one transaction, so after an interruption run it again. Where the queue
is full, what has no room stays a dead letter.` + whereHelp("ready"),
		Example: `  # one that "pq dead list" shows
  pq dead requeue jobs FBUBAX_Af0DSUlItAA

  # all, after the cause was removed
  pq dead requeue jobs --all

  # those that failed alike, over ten minutes
  pq dead requeue jobs --where 'reason=timeout*' --spread 10m`,
		RunE: func(_ *cobra.Command, args []string) error {
			queue, ids := args[0], args[1:]
			if many.asked() {
				if len(ids) > 0 || all {
					return session.Usagef("found --where beside ids, or --all: expected one of them")
				}
			} else if all == (len(ids) > 0) {
				return session.Usagef("expected ids, --all, or --where")
			} else if many.dryRun || spread != 0 {
				return session.Usagef("found --dry-run, or --spread: expected --where beside it")
			}
			c, err := s.Connect()
			if err != nil {
				return err
			}
			holders, err := deadletters.Letters(s, c, queue)
			if err != nil {
				return err
			}
			if many.asked() {
				return many.run(s, holders, client.Bulk{Verb: client.BulkRequeue, To: queue, Spread: spread}, "requeued", "requeue")
			}
			r := &deadletters.Requeue{Session: s, To: c.Queue(queue)}
			if all {
				err = deadletters.Each(s, holders, queue, client.ListOptions{},
					func(dead *client.Queue, i *client.Listed) (bool, error) { return true, r.Item(dead, i.ID) })
			}
			for _, id := range ids {
				if err = r.Find(holders, id); err != nil {
					break
				}
			}
			s.Say("requeued %s", show.Many(r.Done, "item"))
			if err == nil && r.Done == 0 {
				err = session.ExitError(session.ExitNothing)
			}
			return err
		},
	}
	many.define(c.Flags())
	session.DurationVar(c.Flags(), &spread, "spread", "", "with --where: `duration` over which the items become ready")
	c.Flags().BoolVarP(&all, "all", "a", all, "all dead letters of the queue")
	return c
}
