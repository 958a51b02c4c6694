package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
)

func clusterCommand(s *session) *cobra.Command {
	c := &cobra.Command{
		Use: "cluster", Args: cobra.ArbitraryArgs,
		Short: "show several pqd with one store, or change which one is active",
		Long: `Several pqd with PQ_CLUSTER, or with PQ_STORE=jetstream:<name>, keep one store
together: one is active and serves it, the others follow.`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(c, args[0])
			}
			return usagef("found no command behind cluster: expected status or step-down")
		},
	}
	c.AddCommand(clusterStatusCommand(s), clusterStepDownCommand(s))
	return c
}

func clusterStatusCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "status", Args: arguments(0, 0),
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
			c, err := s.connect()
			if err != nil {
				return err
			}
			cluster, err := c.Cluster(s.ctx)
			if err != nil {
				return err
			}
			if s.global.json {
				err = s.printJSON(cluster)
			} else {
				err = s.printCluster(cluster)
			}
			if err == nil && cluster.Members[0].Role != client.RoleActive {
				s.say("no pqd is active")
				return exitError(exitFailed)
			}
			return err
		},
	}
}

func (s *session) printCluster(c *client.Cluster) error {
	rows := [][]string{{"NODE", "ROLE", "EPOCH", "ENTRY", "LAG", "ON DISK", "HEARD", "VERSION"}}
	for _, m := range c.Members {
		heard := "now"
		if m.Heard > 0 {
			heard = span(seconds(m.Heard)) + " ago"
		}
		rows = append(rows, []string{
			m.Node, string(m.Role), count(m.Epoch), count(m.Entry), count(m.Lag), count(m.Synced), heard, m.Version,
		})
	}
	if err := table(s.stdout, rows); err != nil {
		return err
	}
	for _, m := range c.Members {
		if m.Reason != "" {
			if err := s.printf("%s: %s", m.Node, m.Reason); err != nil {
				return err
			}
		}
	}
	l := c.Log
	return s.printf("\nStore %s, log: entries %d to %d, %s", c.Store, l.First, l.Last, size(int64(l.Bytes))+" of "+size(int64(l.MaxBytes))+" ("+count(filled(l))+" %)")
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

func clusterStepDownCommand(s *session) *cobra.Command {
	return &cobra.Command{
		Use: "step-down [<node>]", Args: arguments(0, 1),
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
			c, err := s.connect()
			if err != nil {
				return err
			}
			done, err := c.StepDown(s.ctx, node)
			if err != nil {
				return err
			}
			return s.answer(done, "%s has handed over to %s", done.Node, done.Successor)
		},
	}
}
