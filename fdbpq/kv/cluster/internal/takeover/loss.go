package takeover

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

// SteadyFor is how long the loss has to last: servers of a log that lag say wrong things for some seconds.
const SteadyFor = 10 * time.Second

// steadyLooks is how often a candidate has to see a loss, within SteadyFor or longer.
const steadyLooks = 3

// Loss is a log that ends before an entry that some member has. The zero value was not seen.
type Loss struct {
	end   uint64
	since time.Time
	looks int
}

// Verdict judges a log that ends before an entry that some member has. A server that lags, or led the log until
// now, shows such a log for some seconds. Only a loss that lasts is a loss.
func (l *Loss) Verdict(end uint64, now time.Time) string {
	if l.looks == 0 || l.end != end {
		*l = Loss{end: end, since: now}
	}
	l.looks++
	if l.looks < steadyLooks || now.Sub(l.since) < SteadyFor {
		return "waiting for the log to show it"
	}
	return "it has lost entries that were acknowledged: " + chain.Advice
}
