package peers

import "time"

// Limits of silence.
const (
	// A limit is gapFactor times the longest gap of the last one or two gapSpans, up to limitAtMost times the
	// silence of the options.
	gapSpan     = time.Minute
	gapFactor   = 2.5
	limitAtMost = 6

	// For settledAfter behind the return of a member, or a halt of this process, the limit is returnedFactor times the
	// silence of the options, and gaps do not count: connections begin anew.
	settledAfter   = 5 * time.Second
	returnedFactor = 3
)

// gaps are the longest gaps between the heartbeats of a member, in the present span of time and in the one before.
type gaps struct {
	began       time.Time
	now, before time.Duration
}

func (g *gaps) add(gap time.Duration, at time.Time) {
	switch age := at.Sub(g.began); {
	case age > 2*gapSpan:
		*g = gaps{began: at}
	case age > gapSpan:
		*g = gaps{began: at, before: g.now}
	}
	g.now = max(g.now, gap)
}

// limit is how long a settled member may be silent.
func (g gaps) limit(silence time.Duration) time.Duration {
	longest := time.Duration(gapFactor * float64(max(g.now, g.before)))
	return min(max(silence, longest), limitAtMost*silence)
}
