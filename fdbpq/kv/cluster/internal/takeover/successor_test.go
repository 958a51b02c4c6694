package takeover

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// Who has not been heard for a while, or has ended, is not named as successor; among the
// others the one whose copy is the furthest is.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var others []peers.Peer
	hear := func(h peers.Heartbeat, at time.Time) { others = append(others, peers.Peer{Heartbeat: h, Heard: at}) }
	want := func(name, follower string) {
		t.Helper()
		if got := Successor(name, others, time.Minute, now); got != follower {
			t.Errorf("asked for %q: %q, expected %q", name, got, follower)
		}
	}
	want("", "")
	hear(peers.Heartbeat{Member: "silent", Role: peers.Follower, Entry: 9}, now.Add(-time.Hour))
	hear(peers.Heartbeat{Member: "gone", Role: peers.Follower, Entry: 9, Gone: true}, now.Add(time.Hour))
	hear(peers.Heartbeat{Member: "candidate", Role: peers.Candidate, Entry: 9}, now.Add(time.Hour))
	hear(peers.Heartbeat{Member: "objects", Role: peers.Follower, Entry: 9, Objection: "broken"}, now.Add(time.Hour))
	others = append(others, peers.Peer{Heartbeat: peers.Heartbeat{Member: "lost", Role: peers.Follower, Entry: 9}, Heard: now.Add(time.Hour), Lost: true})
	want("", "")
	hear(peers.Heartbeat{Member: "behind", Role: peers.Follower, Entry: 5}, now.Add(time.Hour))
	want("", "behind")
	hear(peers.Heartbeat{Member: "ahead", Role: peers.Follower, Entry: 6}, now.Add(time.Hour))
	want("", "ahead")
	want("behind", "behind")
	for _, name := range []string{"silent", "gone", "candidate", "objects", "lost", "nowhere", "a"} {
		want(name, "")
	}
}
