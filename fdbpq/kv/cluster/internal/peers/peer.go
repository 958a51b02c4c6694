package peers

import (
	"slices"
	"time"
)

// LivingFor is how long a member counts as living after it was heard.
const LivingFor = 10 * time.Second

// Peer is a member as it was heard last.
type Peer struct {
	Heartbeat
	Heard   time.Time
	gaps    gaps
	back    time.Time // it came, or came back
	Refuses bool      // its machine refuses connections
	silent  bool      // for longer than its limit
	Lost    bool      // it refuses, or another member confirms its silence
	since   time.Time // it is lost
}

// Runs reports whether the member was heard within d, and has not ended.
func (p Peer) Runs(d time.Duration, now time.Time) bool { return !p.Gone && now.Sub(p.Heard) < d }

// HasLog reports whether the disk of the member has the log. A member that replaced another is missing from the
// lists of members that have not restarted since.
func (p Peer) HasLog(members []string) bool {
	if p.Claim == nil { // the disks of members have only copies
		return slices.Contains(members, p.Member)
	}
	return p.Claim.Lives
}

// Away reports whether the member has ended, or is silent.
func (p Peer) Away() bool { return p.Gone || p.silent }

// Stands reports whether a member replaces lost ones.
func (p Peer) Stands() bool {
	return (p.Role == Follower || p.Role == Candidate) && p.Objection == ""
}
