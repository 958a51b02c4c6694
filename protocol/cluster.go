package protocol

import "time"

// Cluster is what one of the pqd that keep a store together knows about all of them.
type Cluster struct {
	Node    string     `json:"node"` // the name of the pqd that answers
	Store   string     `json:"store"`
	Members []Member   `json:"members"` // all pqd; the one that answers comes first
	Log     ClusterLog `json:"log"`
}

// Member is one pqd of a cluster.
type Member struct {
	Node    string  `json:"node"`
	Role    Role    `json:"role"`
	Version string  `json:"version,omitempty"`
	Epoch   uint64  `json:"epoch"`
	Entry   uint64  `json:"entry"`  // the last entry of the log that its copy has
	Synced  uint64  `json:"synced"` // the last entry that its copy has on disk
	Lag     uint64  `json:"lag"`    // entries that its copy lacks
	Heard   float64 `json:"heard"`  // seconds since it was heard last
	Reason  string  `json:"reason,omitempty"`
}

// Role is what a pqd does in a cluster.
type Role string

// The roles.
const (
	RoleActive    Role = "active"    // it serves the store
	RoleFollower  Role = "follower"  // it keeps a copy
	RoleCandidate Role = "candidate" // it tries to become active
	RoleStopped   Role = "stopped"   // its copy and the log do not belong together
	RoleSilent    Role = "silent"    // it has ended, is lost or was not heard for ten seconds, or was active before
)

// ClusterLog is the log of a cluster.
type ClusterLog struct {
	First    uint64 `json:"first"` // the first entry of the log
	Last     uint64 `json:"last"`
	Bytes    uint64 `json:"bytes"`
	MaxBytes uint64 `json:"max_bytes"`
}

// StepDown is the body of a request to the active pqd to hand over.
type StepDown struct {
	Node string `json:"node,omitempty"` // the node that takes over; "": the one whose copy lacks the least
}

// SteppedDown is the answer to a StepDown.
type SteppedDown struct {
	Node      string `json:"node"`      // the node that was active
	Successor string `json:"successor"` // that takes over
	Epoch     uint64 `json:"epoch"`     // the epoch that has ended
}

// Replace is the body of a request to give a node the place of another one, by their
// names.
type Replace struct {
	Old string `json:"old"` // the node that is lost for good
	New string `json:"new"` // the node that gets its place, and runs
}

// Replaced is the answer to a Replace.
type Replaced struct {
	Old      string   `json:"old"`
	New      string   `json:"new"`
	Replicas []string `json:"replicas"` // the nodes that have the log
}

// ActiveEvent is published by a pqd that has become active and takes requests.
type ActiveEvent struct {
	Type  string    `json:"type"`
	Time  time.Time `json:"time"`
	Node  string    `json:"node"`
	Epoch uint64    `json:"epoch"`
}

// EventActive is the type of an [ActiveEvent].
const EventActive = "active"
