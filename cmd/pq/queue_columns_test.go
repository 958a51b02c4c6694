package main

import (
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/top"
	"github.com/pqbridge/pqbridge/protocol"
)

// Tables of queues agree on what their columns say: the oldest item is the one of all, and
// not the next one.
func TestTablesOfQueues(t *testing.T) {
	t.Parallel()
	leased := func(holder string, refuses protocol.Reason) client.Explain {
		return client.Explain{Cause: protocol.CauseLeased, Holder: holder, Refuses: refuses}
	}
	infos := []*client.Info{
		{Queue: "jobs", Ready: 1200, Leased: 3, Delayed: 4, Bytes: 2048, Waiting: 5, Oldest: 1,
			OldestOfAll: 7200, OldestAtLeast: true, Paused: true, Rates: client.Rates{Push: 1, Pop: 2, Settle: 3}},
		{Queue: "jobs-dead", Ready: 7, Oldest: 60, OldestOfAll: 60},
		{Queue: "mail", Leased: 1, Oldest: 0},
		{Queue: "post", Ready: 9, Leased: 4, OldestOfAll: 60, OldestLease: 190, LatestLease: 180, Explain: leased("vm-7631\x1b[2J", "")},
		{Queue: "reports", Ready: 1, Leased: 1, OldestOfAll: 60, OldestLease: 7500, LatestLease: 7500, Explain: leased("", protocol.ReasonFull)},
	}
	all := figures.Of(infos, figures.ByName(infos), time.Now())
	for what, table := range map[string]struct{ got, want []string }{
		"pq ls": {figures.QueueLines(all, lsColumns), []string{
			"QUEUE      READY  LEASED  DELAYED  DEAD     SIZE  OLDEST",
			"jobs       1,200       3        4     7  2.0 KiB   2h0m+  paused",
			"jobs-dead      7       0        0     -      0 B    1m0s",
			"mail           0       1        0     0      0 B       -",
			"post           9       4        0     0      0 B    1m0s  held 3m, vm-7631\\x1b[2J",
			"reports        1       1        0     0      0 B    1m0s  full, held 2h5m",
		}},
		"pq top without a terminal": {figures.QueueLines(all, top.LineColumns), []string{
			"QUEUE      READY  LEASED  DELAYED  OLDEST  WAITING  PUSH/S  POP/S  SETTLE/S",
			"jobs       1,200       3        4   2h0m+        5     1.0    2.0       3.0  paused",
			"jobs-dead      7       0        0    1m0s        0     0.0    0.0       0.0",
			"mail           0       1        0       -        0     0.0    0.0       0.0",
			"post           9       4        0    1m0s        0     0.0    0.0       0.0  held 3m, vm-7631\\x1b[2J",
			"reports        1       1        0    1m0s        0     0.0    0.0       0.0  full, held 2h5m",
		}},
	} {
		if !slices.Equal(table.got, table.want) {
			t.Errorf("%s:\n%q\nexpected\n%q", what, table.got, table.want)
		}
	}
}
