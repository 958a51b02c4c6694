package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/demo"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
)

func demoCommand(s *session.Session) *cobra.Command {
	o := demo.Options{Pause: 3 * time.Second}
	c := &cobra.Command{
		Use: "demo", Args: session.Arguments(0, 0),
		Short: "show in half a minute what queues do",
		Long: `Shows what queues do, step by step: priorities, tenants that take turns, a budget of
cost, retries and dead letters, a worker that hangs, results, and a schedule. Each
step compares what it shows with what its queues say, so the demo also tells whether
an installation works. With --json each step is an object, and there are no pauses.

It makes queues of its own, demo and others whose names begin with demo-, and deletes
them in the end, also after Ctrl-C. It refuses to begin where such a queue is there
that no demo has made. A demo that was killed, or had --keep, leaves its queues to
the next one, which deletes them.

With --alone it needs no pqd that runs: it starts the one beside pq, or on PATH, on a
temporary folder and free ports of this machine, and removes it in the end. With
--keep, too, that one goes on until Ctrl-C.

Exits with 1 when a step did not do what it promises.`,
		Example: `  # without anything that runs
  pq demo --alone

  # and leave all there, to look at it in the console
  pq demo --alone --keep

  # does this installation work?
  pq demo --json | jq -c '{title, ok, error}'`,
		RunE: func(*cobra.Command, []string) error { return demo.Run(s, o) },
	}
	f := c.Flags()
	f.BoolVar(&o.Alone, "alone", o.Alone, "start a pqd for the demo, and remove it in the end")
	f.BoolVar(&o.Keep, "keep", o.Keep, "leave the queues there")
	session.DurationVar(f, &o.Pause, "pause", "", "`duration` to read between steps")
	return c
}
