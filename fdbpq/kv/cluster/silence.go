package cluster

import (
	"context"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/takeover"
)

// Silence is the default of Options.Silence.
const Silence = peers.DefaultSilence

const (
	// beatsInSilence is how many heartbeats a limit has, and looksInBeat how often in between a member looks.
	beatsInSilence = 5
	looksInBeat    = 4

	// unconfirmedFor is how long a member waits at least for a sign of life of an active member that is not lost
	// before it becomes a candidate; after a failure it waits longer.
	unconfirmedFor = 1500 * time.Millisecond
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
	t := d.turn()
	return t.Lost, t.Rank, t.OK
}

func (d *DB) turn() takeover.Turn {
	all, _ := d.peers.Heard()
	role, _ := d.status.peek()
	return takeover.TurnOf(d.options.Name, role, all, len(d.options.Members))
}

// bereft reports whether the active member is lost, and it is this member's turn to replace it.
func (l lookout) bereft() bool {
	t := l.turn()
	since := l.peers.ActiveLost(l.status.position())
	return !since.IsZero() && t.Comes(time.Since(since))
}
