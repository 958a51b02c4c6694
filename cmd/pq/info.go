package main

import (
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
)

func infoCommand() *command {
	return &command{
		name: "info", args: "[<queue>]", max: 1,
		short: "show a queue, or the bridge",
		long: `Shows the counts, rates and configuration of a queue; without one, what a bridge
says about itself.`,
		examples: []example{
			{"how many are ready", "pq info jobs --json | jq .ready"},
			{"the bridge, its store, its limits", "pq info"},
		},
		run: func(s *session, args []string) error {
			c, err := s.connect()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return s.system(c)
			}
			info, err := c.Queue(args[0]).Info(s.ctx)
			if err != nil {
				return err
			}
			if s.global.json {
				return s.printJSON(info)
			}
			return s.print(describeQueue(info))
		},
	}
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
	f.add("Rates", "%s pushes, %s pops, %s settlements a second", rate(i.Rates.Push), rate(i.Rates.Pop), rate(i.Rates.Settle))
	f.add("", "")
	for _, field := range configFields(i.Config) {
		f.add(field.name, "%s", field.value)
	}
	return f.String()
}

// system shows what a bridge says about itself.
func (s *session) system(c *client.Client) error {
	system, err := c.System(s.ctx)
	if err != nil {
		return err
	}
	if s.global.json {
		return s.printJSON(system)
	}
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
	return s.print(f.String())
}
