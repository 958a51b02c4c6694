package cluster

import (
	"context"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// Silence is the default of Options.Silence.
const Silence = peers.DefaultSilence

const (
	// beatsInSilence is how many heartbeats a limit has, and looksInBeat how often in between a member looks.
	beatsInSilence = 5
	looksInBeat    = 4

	// rankPause is how long a member gives a member of lower rank to replace a lost one.
	rankPause = 150 * time.Millisecond
)

// beat is the time between heartbeats.
func (o *Options) beat() time.Duration { return o.Silence / beatsInSilence }

// unconfirmed is how long a member must be silent if no other member confirms its silence.
func (o *Options) unconfirmed() time.Duration { return max(unconfirmedFor, 3*o.Silence) }

// lookout looks who is lost.
type lookout struct{ *DB }

// watch looks until ctx ends.
func (l lookout) watch(ctx context.Context) {
	for every := l.options.beat() / looksInBeat; pause(ctx, every) == nil; {
		changed, lost := l.peers.Judge()
		if changed {
			l.announce()
		}
		for _, p := range lost {
			l.slog.Info("kv/cluster: a member is lost", "member", p.Member, "role", string(p.Role), "silent", time.Since(p.Heard).Round(time.Millisecond), "refuses", p.Refuses)
			signal(l.wake)
		}
	}
}

// Refuses notes that the machine of a member refuses connections, so that its process has ended. It holds until the
// member is heard again.
func (d *DB) Refuses(member string) { d.peers.Refuse(member) }

// Lost are the members that are lost now, and rank is how many members come before this one to replace what a lost
// one did. ok is false if so many members are lost that nothing can replace them.
func (d *DB) Lost() (lost []string, rank int, ok bool) {
	all, _ := d.peers.Heard()
	role, _ := d.status.peek()
	runs := 1
	for _, p := range all {
		switch {
		case p.Lost:
			lost = append(lost, p.Member)
		case p.Away():
		default:
			runs++
			if p.Stands() && (role == peers.Active || p.Member < d.options.Name) {
				rank++
			}
		}
	}
	slices.Sort(lost)
	return lost, rank, 2*runs > len(d.options.Members)
}

// bereft reports whether the active member is lost, and it is this member's turn to replace it.
func (l lookout) bereft() bool {
	_, rank, ok := l.Lost()
	since := l.peers.ActiveLost(l.status.position())
	return ok && !since.IsZero() && time.Since(since) >= time.Duration(rank)*rankPause
}
