package takeover

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// Successor is the follower that takes over when the active member steps down: the named one or, if name is empty, the
// one whose copy is furthest; "" if there is none. It was heard within d, and can become active.
func Successor(name string, others []peers.Peer, d time.Duration, now time.Time) string {
	furthest := ""
	var most uint64
	for _, p := range others {
		if !p.Runs(d, now) || p.Lost || p.Role != peers.Follower || p.Objection != "" {
			continue
		}
		if p.Member == name {
			return name
		}
		if furthest == "" || p.Entry > most {
			furthest, most = p.Member, p.Entry
		}
	}
	if name != "" {
		return ""
	}
	return furthest
}
