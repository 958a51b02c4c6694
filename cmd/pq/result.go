package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/screen"
	"github.com/pqbridge/pqbridge/protocol"
)

func resultCommand(s *session.Session) *cobra.Command {
	var raw bool
	var wait time.Duration
	c := &cobra.Command{
		Use: "result <queue> <id>", Args: session.Arguments(2, 2),
		Short: "show what became of an item",
		Long: `Shows how an item ended, and the result of its work, if its push asked for that
with --result-ttl. The exit code is 0 if the item is done or handed over, 1 if it
is dead, expired, removed, cancelled or evicted, and 3 if there is no result, or none yet.`,
		Example: `  # what the worker said
  pq result jobs FBUBAX_Af0DSUlItAA

  # wait for it
  pq result jobs FBUBAX_Af0DSUlItAA --wait 1m

  # the result alone
  pq result images FBUBAX_Af0DSUlItAA --raw > small.jpg`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			r, err := q.AwaitResult(s.Context, args[1], wait)
			var asked *client.Error
			if errors.As(err, &asked) && asked.Progress != "" {
				s.Say("its holder says: %s", screen.Visible(asked.Progress))
			}
			if err != nil {
				return err
			}
			return printResult(s, show.ShownResult(q.Name(), args[1], r), r.Body, raw)
		},
	}
	session.DurationVar(c.Flags(), &wait, "wait", "w", "wait up to this `duration` for the item to end")
	c.Flags().BoolVar(&raw, "raw", raw, "print the result alone, unchanged")
	return c
}

// printResult prints a result. The exit code says whether the work is done.
func printResult(s *session.Session, r *show.Result, body []byte, raw bool) (err error) {
	switch {
	case raw:
		err = s.Print(string(body))
	case s.Global.JSON:
		err = s.PrintJSON(r)
	default:
		if err = s.Print(r.Describe()); err == nil && len(body) > 0 {
			if err = s.Print("\n"); err == nil {
				err = s.PrintPayload(body)
			}
		}
	}
	if err != nil || r.Outcome == protocol.FinishDone || r.Outcome == protocol.FinishHandedOver {
		return err
	}
	return session.ExitError(session.ExitFailed)
}
