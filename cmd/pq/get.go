package main

import (
	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

func getCommand(s *session.Session) *cobra.Command {
	var raw, attempts bool
	c := &cobra.Command{
		Use: "get <queue> <id>", Args: session.Arguments(2, 2),
		Short: "show an item by its id",
		Long: `Shows an item in any state, and changes nothing. If there is no such item the exit
code is 3.`,
		Example: `  # headers and payload
  pq get jobs FBUBAX_Af0DSUlItAA

  # how its earlier deliveries ended
  pq get jobs FBUBAX_Af0DSUlItAA --attempts

  # the payload alone
  pq get images FBUBAX_Af0DSUlItAA --raw > photo.jpg`,
		RunE: func(_ *cobra.Command, args []string) error {
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			var options []client.GetOption
			if attempts {
				options = append(options, client.WithAttempts())
			}
			i, err := q.Get(s.Context, args[1], options...)
			switch {
			case err != nil:
				return err
			case raw:
				return s.Print(string(i.Payload))
			case s.Global.JSON:
				return s.PrintJSON(show.Shown(i))
			}
			if err := s.Print(show.Shown(i).Describe() + "\n"); err != nil {
				return err
			}
			return s.PrintPayload(i.Payload)
		},
	}
	f := c.Flags()
	f.BoolVar(&attempts, "attempts", attempts, "show how its earlier leases ended")
	f.BoolVar(&raw, "raw", raw, "print the payload alone, unchanged")
	return c
}
