package protocol_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// Attempts fail where more of them failed than were acknowledged within ten minutes, and five at least.
func TestHistoryFails(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		nacked, settled []int64
		want            bool
	}{
		"nothing":               {nil, nil, false},
		"four":                  {[]int64{0, 4}, []int64{0, 4}, false},
		"five":                  {[]int64{1, 4}, []int64{1, 4}, true},
		"five, and four go on":  {[]int64{1, 4}, []int64{5, 4}, true},
		"five, and five go on":  {[]int64{1, 4}, []int64{5, 5}, false},
		"one of fifty":          {[]int64{20}, []int64{1000}, false},
		"eleven minutes ago":    {[]int64{5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, []int64{5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, false},
		"ten minutes ago":       {[]int64{5, 0, 0, 0, 0, 0, 0, 0, 0, 0}, []int64{5, 0, 0, 0, 0, 0, 0, 0, 0, 0}, true},
		"of an earlier version": {nil, []int64{9}, false},
	} {
		if h := (protocol.History{Nacked: tc.nacked, Settle: tc.settled}); h.Fails() != tc.want {
			t.Errorf("%s: fails: %t, expected %t", name, h.Fails(), tc.want)
		}
	}
}

// The oldest lease is named where items are ready, workers hold others, and no lease has begun for two minutes. Nothing is said
// where something else keeps the items.
func TestHeldFor(t *testing.T) {
	t.Parallel()
	hangs := protocol.Info{Ready: 9, Leased: 4, OldestLease: 190, LatestLease: 120, Explain: protocol.Explain{Cause: protocol.CauseLeased}}
	for name, tc := range map[string]struct {
		change func(*protocol.Info)
		want   time.Duration
	}{
		"hangs":              {func(*protocol.Info) {}, 190 * time.Second},
		"not long enough":    {func(i *protocol.Info) { i.LatestLease = 119.9 }, 0},
		"a lease began":      {func(i *protocol.Info) { i.LatestLease = 1 }, 0},
		"none is known":      {func(i *protocol.Info) { i.LatestLease = 0 }, 0},
		"nothing is ready":   {func(i *protocol.Info) { i.Ready = 0 }, 0},
		"paused":             {func(i *protocol.Info) { i.Explain.Cause = protocol.CausePaused }, 0},
		"a rate":             {func(i *protocol.Info) { i.Explain.Cause = protocol.CauseRate }, 0},
		"somebody asks":      {func(i *protocol.Info) { i.Explain.Cause = protocol.CauseFlows }, 0},
		"not all have said":  {func(i *protocol.Info) { i.Explain.Cause = protocol.CauseUnknown }, 0},
		"its key is blocked": {func(i *protocol.Info) { i.Explain.Cause = protocol.CauseBlocked }, 0},
	} {
		i := hangs
		tc.change(&i)
		if got := i.HeldFor(); got != tc.want {
			t.Errorf("%s: held for %s, expected %s", name, got, tc.want)
		}
	}
}
