package protocol_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

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
