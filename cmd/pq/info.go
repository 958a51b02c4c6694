package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

func infoCommand(s *session.Session) *cobra.Command {
	var every time.Duration
	c := &cobra.Command{
		Use: "info [<queue>]", Args: session.Arguments(0, 1),
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
			c, err := s.Connect()
			if err != nil {
				return err
			}
			return watch(s, every, func(ctx context.Context) (string, error) {
				if len(args) == 0 {
					system, err := c.System(ctx)
					if err != nil {
						return "", err
					}
					return described(s, system, func() string { return describeSystem(system) })
				}
				info, err := c.Queue(args[0]).Info(ctx)
				if err != nil {
					return "", err
				}
				return described(s, info, func() string { return describeQueue(info) })
			})
		},
	}
	watchVar(c.Flags(), &every)
	return c
}

// described is an object with --json, and a text for people without.
func described(s *session.Session, v any, text func() string) (string, error) {
	if !s.Global.JSON {
		return text(), nil
	}
	var b strings.Builder
	err := show.WriteJSON(s.OfJSON(&b), v)
	return b.String(), err
}

func describeQueue(i *client.Info) string {
	var f show.Facts
	f.Add("Queue", "%s", strings.TrimSpace(i.Queue+" "+figures.State(i)))
	if e := &i.Explain; e.Cause != "" && e.Cause != protocol.CauseFlows && e.Cause != protocol.CauseEmpty {
		f.Add("Why", "%s", show.Why(i.Queue, e))
	}
	f.Add("Ready", "%s", show.Thousands(i.Ready))
	f.Add("Leased", "%s", show.Thousands(i.Leased))
	if i.Held > 0 {
		f.Add("Held by links", "%s", show.Thousands(i.Held))
	}
	f.Add("Delayed", "%s", show.Thousands(i.Delayed))
	f.Add("Waiting pops", "%s", show.Thousands(int64(i.Waiting)))
	f.Add("Size", "%s", show.Size(i.Bytes))
	f.Add("Oldest", "%s", figures.Oldest(i))
	f.Add("Oldest of all", "%s", figures.OldestOf(i.Ready, i.OldestOfAll, i.OldestAtLeast))
	f.Add("Oldest lease", "%s", figures.OldestOf(i.Leased, i.OldestLease, i.LeaseAtLeast))
	f.Add("Rates", "%s pushes, %s pops, %s settlements a second", show.Rate(i.Rates.Push), show.Rate(i.Rates.Pop), show.Rate(i.Rates.Settle))
	if i.CostTokens != nil {
		f.Add("Cost left", "%s", show.Thousands(*i.CostTokens))
	}
	if c := i.Cost; c != nil {
		f.Add("Cost", "%s reserved by settled deliveries, %s spent", show.Thousands(c.Reserved), show.Thousands(c.Spent))
	}
	f.Add("", "")
	for _, field := range configFields(i.Config) {
		f.Add(field.name, "%s", field.value)
	}
	return f.String()
}

// describeSystem writes a bridge's answer about itself, for people.
func describeSystem(system *client.System) string {
	l := system.Limits
	var f show.Facts
	f.Add("Version", "%s", system.Version)
	if system.Store != "" { // which a tenant does not see
		f.Add("Store", "%s (%s)", system.Store, system.StoreID)
	}
	f.Add("Prefix", "%s", system.Prefix)
	f.Add("Uptime", "%s", show.Span(show.Seconds(system.Uptime)))
	f.Add("Payload", "up to %s, headers included", show.LimitSize(l.Payload))
	f.Add("Batch", "up to %s and %s", show.Many(int64(l.Batch), "item"), show.LimitSize(int64(l.BatchBytes)))
	f.Add("Wait", "up to %s", show.Limit(time.Duration(l.Wait)))
	f.Add("Lease", "up to %s", show.Limit(time.Duration(l.Lease)))
	f.Add("In flight", "up to %s and %s", show.Many(int64(l.Requests), "request"), show.LimitSize(l.Bytes))
	f.Add("Waiting pops", "up to %s", show.Thousands(int64(l.Waiters)))
	if t := system.Tenant; t != nil {
		addTenant(&f, t)
	}
	return f.String()
}

// addTenant adds what a tenant has, beside its quotas.
func addTenant(f *show.Facts, t *protocol.Tenant) {
	of := func(quota int64, number func(int64) string) string {
		if quota == 0 {
			return ""
		}
		return " of " + number(quota)
	}
	f.Add("", "")
	f.Add("Tenant", "%s", t.Name)
	f.Add("Queues", "%s%s", show.Thousands(t.Queues), of(t.Quotas.Queues, show.Thousands))
	f.Add("Items", "%s%s", show.Thousands(t.Items), of(t.Quotas.Items, show.Thousands))
	f.Add("Size", "%s%s", show.Size(t.Bytes), of(t.Quotas.Bytes, show.Size))
	f.Add("Charged", "%s", show.Many(t.Charged, "request"))
	if most := t.Quotas.Requests; most > 0 {
		f.Add("Rate", "up to %s a second", show.Many(most, "request"))
	}
}
