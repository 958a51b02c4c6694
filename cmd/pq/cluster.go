package main

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

func clusterCommand(s *session.Session) *cobra.Command {
	c := &cobra.Command{
		Use: "cluster", Args: cobra.ArbitraryArgs,
		Short: "show several pqd with one store, change which one is active, or replace a lost one",
		Long: `Several pqd with PQ_CLUSTER, or with PQ_STORE=jetstream:<name>, keep one store
together: one is active and serves it, the others follow.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return session.UnknownCommand(c, args[0])
			}
			return session.Usagef("found no command behind cluster: expected status, step-down or replace")
		},
	}
	c.AddCommand(clusterStatusCommand(s), clusterStepDownCommand(s), clusterReplaceCommand(s))
	return c
}

func clusterStatusCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "status", Args: session.Arguments(0, 0),
		Short: "show which pqd is active, and how far the others are",
		Long: `Shows each pqd that keeps the store: its role, the epoch and the last entry of the
log that it has, how many entries it lacks, up to which entry its copy is on disk,
and its version. Below it shows how full the log is.

It works while no pqd is active, too. If none is, the exit code is 1.`,
		Example: `  # who is active
  pq cluster status

  # how many entries each one lacks
  pq cluster status --json | jq '.members[] | {node, lag}'`,
		RunE: func(*cobra.Command, []string) error {
			c, err := s.Connect()
			if err != nil {
				return err
			}
			cluster, err := c.Cluster(s.Context)
			if err != nil {
				return err
			}
			if s.Global.JSON {
				err = s.PrintJSON(cluster)
			} else {
				err = printCluster(s, cluster)
			}
			silence := show.Silence(cluster)
			switch {
			case err != nil:
			case cluster.Members[0].Role != client.RoleActive:
				idle := "no pqd is active"
				if silence != "" {
					idle += ": " + silence
				}
				s.Say("%s", idle)
				return session.ExitError(session.ExitFailed)
			case show.MostAreSilent(cluster): // beside NATS servers of its own it may serve alone
				s.Say("the active pqd hears too few others: %s", silence)
			}
			return err
		},
	}
}

func printCluster(s *session.Session, c *client.Cluster) error {
	rows := [][]string{{"NODE", "ROLE", "EPOCH", "ENTRY", "LAG", "ON DISK", "HEARD", "VERSION"}}
	for _, m := range c.Members {
		heard := "now"
		if m.Heard > 0 {
			heard = show.Span(show.Seconds(m.Heard)) + " ago"
		}
		rows = append(rows, []string{
			m.Node, string(m.Role), count(m.Epoch), count(m.Entry), count(m.Lag), count(m.Synced), heard, m.Version,
		})
	}
	if err := show.Table(s.Stdout, rows); err != nil {
		return err
	}
	for _, m := range c.Members {
		if m.Reason != "" {
			if err := s.Printf("%s: %s", m.Node, m.Reason); err != nil {
				return err
			}
		}
	}
	l := c.Log
	return s.Printf("\nStore %s, log: entries %d to %d, %s", c.Store, l.First, l.Last, show.Size(int64(l.Bytes))+" of "+show.Size(int64(l.MaxBytes))+" ("+count(show.Filled(l))+" %)")
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

func clusterStepDownCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "step-down [<node>]", Args: session.Arguments(0, 1),
		Short: "have the active pqd hand over to another one",
		Long: `Has the active pqd answer the requests in flight and hand the store over to the
node, or to the one whose copy lacks the least. Clients notice a pause of some
tenths of a second: their requests and waiting pops are refused with 503 and
certainly not done, and client libraries repeat them.`,
		Example: `  # before the machine of the active pqd is rebooted
  pq cluster step-down`,
		RunE: func(_ *cobra.Command, args []string) error {
			node := ""
			if len(args) > 0 {
				node = args[0]
			}
			c, err := s.Connect()
			if err != nil {
				return err
			}
			done, err := c.StepDown(s.Context, node)
			if err != nil {
				return err
			}
			return s.Answer(done, "%s has handed over to %s", done.Node, done.Successor)
		},
	}
}

func clusterReplaceCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "replace <lost node> <new node>", Args: session.Arguments(2, 2),
		Short: "have a new node take the place of one that is lost for good",
		Long: `Has a node of PQ_CLUSTER that runs take the place of one that is lost for good and had
another name. The log gets a replica on the new one. Without that the new one counts
for nothing, its /readyz answers 503, and the next loss stops the store.

A node that comes back under its name, with an empty PQ_DATA too, needs no
replacement. One that was replaced must not be started again.`,
		Example: `  # the machine 10.0.0.3 is lost, and 10.0.0.4 runs in its place
  pq cluster replace 10-0-0-3 10-0-0-4`,
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := s.Connect()
			if err != nil {
				return err
			}
			done, err := c.Replace(s.Context, args[0], args[1])
			if err != nil {
				return err
			}
			return s.Answer(done, "%s has taken the place of %s: the log is on %s", done.New, done.Old, strings.Join(done.Replicas, ", "))
		},
	}
}
