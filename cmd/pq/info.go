package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
)

func infoCommand(s *session) *cobra.Command {
	var every time.Duration
	c := &cobra.Command{
		Use: "info [<queue>]", Args: arguments(0, 1),
		Short: "show a queue, or the bridge",
		Long: `Shows the counts, rates and configuration of a queue. Without a queue it shows
version, store and limits of a bridge.`,
		Example: `  # the number of ready items
  pq info jobs --json | jq .ready

  # as it changes
  pq info jobs --watch

  # the bridge
  pq info`,
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := s.connect()
			if err != nil {
				return err
			}
			return s.watch(every, func(ctx context.Context) (string, error) {
				if len(args) == 0 {
					system, err := c.System(ctx)
					if err != nil {
						return "", err
					}
					return s.described(system, func() string { return describeSystem(system) })
				}
				info, err := c.Queue(args[0]).Info(ctx)
				if err != nil {
					return "", err
				}
				return s.described(info, func() string { return describeQueue(info) })
			})
		},
	}
	watchVar(c.Flags(), &every)
	return c
}

// described is an object with --json, and a text for people without.
func (s *session) described(v any, text func() string) (string, error) {
	if !s.global.json {
		return text(), nil
	}
	var b strings.Builder
	err := writeJSON(&b, v)
	return b.String(), err
}

func describeQueue(i *client.Info) string {
	var f facts
	f.add("Queue", "%s", strings.TrimSpace(i.Queue+" "+paused(i)))
	f.add("Ready", "%s", thousands(i.Ready))
	f.add("Leased", "%s", thousands(i.Leased))
	f.add("Delayed", "%s", thousands(i.Delayed))
	f.add("Waiting pops", "%s", thousands(int64(i.Waiting)))
	f.add("Size", "%s", size(i.Bytes))
	f.add("Oldest", "%s", oldest(i))
	f.add("Oldest of all", "%s", oldestOf(i.Ready, i.OldestOfAll, i.OldestAtLeast))
	f.add("Oldest lease", "%s", oldestOf(i.Leased, i.OldestLease, i.LeaseAtLeast))
	f.add("Rates", "%s pushes, %s pops, %s settlements a second", rate(i.Rates.Push), rate(i.Rates.Pop), rate(i.Rates.Settle))
	f.add("", "")
	for _, field := range configFields(i.Config) {
		f.add(field.name, "%s", field.value)
	}
	return f.String()
}

// oldestOf is the age of the oldest of n things, or a lower bound of it.
func oldestOf(n int64, age float64, atLeast bool) string {
	if n == 0 {
		return "-"
	}
	text := span(seconds(age).Round(time.Second))
	if atLeast {
		return text + " or more"
	}
	return text
}

// describeSystem writes a bridge's answer about itself, for people.
func describeSystem(system *client.System) string {
	l := system.Limits
	var f facts
	f.add("Version", "%s", system.Version)
	f.add("Store", "%s (%s)", system.Store, system.StoreID)
	f.add("Prefix", "%s", system.Prefix)
	f.add("Uptime", "%s", span(seconds(system.Uptime)))
	f.add("Payload", "up to %s, headers included", limitSize(l.Payload))
	f.add("Batch", "up to %s and %s", many(int64(l.Batch), "item"), limitSize(int64(l.BatchBytes)))
	f.add("Wait", "up to %s", limit(time.Duration(l.Wait)))
	f.add("Lease", "up to %s", limit(time.Duration(l.Lease)))
	f.add("In flight", "up to %s and %s", many(int64(l.Requests), "request"), limitSize(l.Bytes))
	f.add("Waiting pops", "up to %s", thousands(int64(l.Waiters)))
	return f.String()
}
