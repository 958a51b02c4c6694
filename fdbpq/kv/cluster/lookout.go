package cluster

import (
	"context"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/takeover"
)

// looksInBeat is how often a member looks between two heartbeats.
const looksInBeat = 4

// lookout looks who is lost.
type lookout struct{ *member }

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

// turn says who is lost, and when it is the turn of this member to replace one.
func (l lookout) turn() takeover.Turn {
	all, _ := l.peers.Heard()
	role := l.self.now().role
	return takeover.TurnOf(l.options.Name, role, all, len(l.options.Members))
}

// bereft reports whether the active member is lost, and it is this member's turn to replace it.
func (l lookout) bereft() bool {
	t := l.turn()
	since := l.peers.ActiveLost(l.self.now().head)
	return !since.IsZero() && t.Comes(time.Since(since))
}

// successor is for [DB.Successor].
func (l lookout) successor(name string) (string, error) {
	all, _ := l.peers.Heard()
	if name = takeover.Successor(name, all, l.options.unconfirmed(), time.Now()); name == "" {
		return "", ErrNoSuccessor
	}
	return name, nil
}

// keepers is for [DB.Keepers].
func (l lookout) keepers() (names []string) {
	all, _ := l.peers.Heard()
	for _, p := range all {
		if p.Member != l.options.Name && p.Runs(l.options.unconfirmed(), time.Now()) && !p.Lost && p.HasLog(l.options.Members) {
			names = append(names, p.Member)
		}
	}
	return names
}
