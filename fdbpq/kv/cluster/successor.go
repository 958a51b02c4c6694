package cluster

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// successor is the follower that takes over when the active member steps down: the named one or, if name is empty, the
// one whose copy is furthest; "" if there is none. It was heard within d, and can become active.
func successor(name string, others []peers.Peer, d time.Duration) string {
	furthest := ""
	var most uint64
	for _, p := range others {
		if !p.Runs(d) || p.Lost || p.Role != peers.Follower || p.Objection != "" {
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
