package main

import (
	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
)

func getCommand(s *session) *cobra.Command {
	var raw, attempts bool
	c := &cobra.Command{
		Use: "get <queue> <id>", Args: arguments(2, 2),
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
			q, err := s.queue(args[0])
			if err != nil {
				return err
			}
			var options []client.GetOption
			if attempts {
				options = append(options, client.WithAttempts())
			}
			i, err := q.Get(s.ctx, args[1], options...)
			switch {
			case err != nil:
				return err
			case raw:
				return s.print(string(i.Payload))
			case s.global.json:
				return s.printJSON(shown(i))
			}
			return s.print(shown(i).describe() + "\n" + string(line(i.Payload)))
		},
	}
	f := c.Flags()
	f.BoolVar(&attempts, "attempts", attempts, "show how its earlier leases ended")
	f.BoolVar(&raw, "raw", raw, "print the payload alone, unchanged")
	return c
}
