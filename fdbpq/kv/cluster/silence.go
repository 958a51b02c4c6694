package cluster

import (
	"context"
	"slices"
	"time"
)

// A member is lost when its machine refuses connections, or when two members that run have not heard it for their
// limit. The word of another member keeps a member that was halted, or cut off, from taking all others for lost. To
// take a member for lost costs at most a candidacy, never safety: only the log decides who may write.
//
// The limit is Options.Silence. It grows with the gaps that the other member's heartbeats had lately, because a
// machine that stalled once will do so again.
const (
	// Silence is the default of Options.Silence.
	Silence = 500 * time.Millisecond

	// beatsInSilence is how many heartbeats a limit has, and looksInBeat how often in between a member looks.
	beatsInSilence = 5
	looksInBeat    = 4

	// A limit is gapFactor times the longest gap of the last one or two gapSpans, up to limitAtMost times
	// Options.Silence.
	gapSpan     = time.Minute
	gapFactor   = 2.5
	limitAtMost = 6

	// For settledAfter behind the return of a member, or a halt of this process, the limit is returnedFactor times
	// Options.Silence, and gaps do not count: connections begin anew.
	settledAfter   = 5 * time.Second
	returnedFactor = 3

	// rankPause is how long a member gives a member of lower rank to replace a lost one.
	rankPause = 150 * time.Millisecond
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

// beat is the time between heartbeats.
func (o *Options) beat() time.Duration { return o.Silence / beatsInSilence }

// unconfirmed is how long a member must be silent if no other member confirms its silence.
func (o *Options) unconfirmed() time.Duration { return max(unconfirmedFor, 3*o.Silence) }

// lookout looks who is lost.
type lookout struct{ *DB }

// watch looks until ctx ends.
func (l lookout) watch(ctx context.Context) {
	for every := l.options.beat() / looksInBeat; pause(ctx, every) == nil; {
		changed, lost := l.peers.judge()
		if changed {
			l.announce()
		}
		for _, p := range lost {
			l.slog.Info("kv/cluster: a member is lost", "member", p.Member, "role", string(p.Role), "silent", time.Since(p.heard).Round(time.Millisecond), "refuses", p.refuses)
			signal(l.wake)
		}
	}
}

// Refuses notes that the machine of a member refuses connections, so that its process has ended. It holds until the
// member is heard again.
func (d *DB) Refuses(member string) { d.peers.refuse(member) }

// Lost are the members that are lost now, and rank is how many members come before this one to replace what a lost
// one did. ok is false if so many members are lost that nothing can replace them.
func (d *DB) Lost() (lost []string, rank int, ok bool) {
	all, _ := d.peers.heard()
	role, _ := d.status.peek()
	runs := 1
	for _, p := range all {
		switch {
		case p.lost:
			lost = append(lost, p.Member)
		case p.Gone, p.silent:
		default:
			runs++
			if p.stands() && (role == Active || p.Member < d.options.Name) {
				rank++
			}
		}
	}
	slices.Sort(lost)
	return lost, rank, 2*runs > len(d.options.Members)
}

// stands reports whether a member replaces lost ones.
func (p peer) stands() bool {
	return (p.Role == Follower || p.Role == Candidate) && p.Objection == ""
}

// bereft reports whether the active member is lost, and it is this member's turn to replace it.
func (l lookout) bereft() bool {
	_, rank, ok := l.Lost()
	since := l.peers.activeLost(l.status.position())
	return ok && !since.IsZero() && time.Since(since) >= time.Duration(rank)*rankPause
}
