package main

import (
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/top"
)

// Tables of queues agree on what their columns say: the oldest item is the one of all, and
// not the next one.
func TestTablesOfQueues(t *testing.T) {
	t.Parallel()
	infos := []*client.Info{
		{Queue: "jobs", Ready: 1200, Leased: 3, Delayed: 4, Bytes: 2048, Waiting: 5, Oldest: 1,
			OldestOfAll: 7200, OldestAtLeast: true, Paused: true, Rates: client.Rates{Push: 1, Pop: 2, Settle: 3}},
		{Queue: "jobs-dead", Ready: 7, Oldest: 60, OldestOfAll: 60},
		{Queue: "mail", Leased: 1, Oldest: 0},
	}
	all := figures.Of(infos, figures.ByName(infos), time.Now())
	for what, table := range map[string]struct{ got, want []string }{
		"pq ls": {figures.QueueLines(all, lsColumns), []string{
			"QUEUE      READY  LEASED  DELAYED  DEAD     SIZE  OLDEST",
			"jobs       1,200       3        4     7  2.0 KiB   2h0m+  paused",
			"jobs-dead      7       0        0     -      0 B    1m0s",
			"mail           0       1        0     0      0 B       -",
		}},
		"pq top without a terminal": {figures.QueueLines(all, top.LineColumns), []string{
			"QUEUE      READY  LEASED  DELAYED  OLDEST  WAITING  PUSH/S  POP/S  SETTLE/S",
			"jobs       1,200       3        4   2h0m+        5     1.0    2.0       3.0  paused",
			"jobs-dead      7       0        0    1m0s        0     0.0    0.0       0.0",
			"mail           0       1        0       -        0     0.0    0.0       0.0",
		}},
	} {
		if !slices.Equal(table.got, table.want) {
			t.Errorf("%s:\n%q\nexpected\n%q", what, table.got, table.want)
		}
	}
}
