package peers

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/claims"
)

// PendingFor is how long an append of the active member may take. After that its heartbeats show no life: it runs, but
// cannot reach the log.
const PendingFor = 3 * time.Second

// Heartbeat is the state of a member, which it broadcasts several times a second and
// when asked. Fields of later versions are ignored.
type Heartbeat struct {
	Member     string `json:"member"`
	Store      string `json:"store"` // hexadecimal; of zeros while its copy is empty
	Generation uint64 `json:"generation"`
	Role       Role   `json:"role"`
	Epoch      uint64 `json:"epoch"`
	Entry      uint64 `json:"entry"`  // the last entry of its copy
	Hash       string `json:"hash"`   // of that entry
	Read       uint64 `json:"read"`   // the last entry that it has read: the end of a transaction may be missing
	Synced     uint64 `json:"synced"` // the last entry that its copy has after a crash

	// Pending is how long the active member has waited for an append.
	Pending time.Duration `json:"pending,omitempty"`

	// Objection says why no member may become active, as far as this one knows.
	Objection string `json:"objection,omitempty"`

	// Misread says that the member cannot read the next entry. Its copy is a part of the log, so another member
	// that can read the entry may become active.
	Misread bool `json:"misread,omitempty"`

	// Final says that the copy takes no more entries in its generation of the log.
	Final bool `json:"final,omitempty"`

	// DiskFull says that the member's disk is nearly full.
	DiskFull bool `json:"disk_full,omitempty"`

	// Partless says that the member has a copy, and its disk no part of the log: it has not the place of another one yet, or
	// another one has its place. Members of earlier versions never say so.
	Partless bool `json:"partless,omitempty"`

	// Sheds says that the active member refuses large requests unread. Members of earlier versions never say so.
	Sheds bool `json:"sheds,omitempty"`

	// Mark is the furthest entry that the member knows of.
	Mark *Mark `json:"mark,omitempty"`

	// Claim is the claim of the member's own disk, and Knows has the claims that it remembers of other disks.
	Claim *claims.Claim           `json:"claim,omitempty"`
	Knows map[string]claims.Claim `json:"knows,omitempty"`

	// Silence is how long ago the member has read the last transaction, if it read the transaction when it was new, or
	// was about to write it.
	Silence *time.Duration `json:"silence,omitempty"`

	// Silent are the members that this one has not heard for its limit.
	Silent []string `json:"silent,omitempty"`

	// Version is the version of the program, for operators.
	Version string `json:"version,omitempty"`

	// Poll asks all others for a heartbeat.
	Poll bool `json:"poll,omitempty"`

	// Gone is the member's last message: it ends.
	Gone bool `json:"gone,omitempty"`

	// Process tells members with the same name, a mistake, apart.
	Process string `json:"process,omitempty"`

	// Format is the newest record that the member reads.
	Format int `json:"format"`
}

// ShowsLife reports whether a heartbeat comes from an active member that reaches the log, as a copy at a position sees
// it.
func (h Heartbeat) ShowsLife(at chain.Head) bool {
	return h.Role == Active && !h.Gone && h.Generation >= at.Generation && h.Epoch >= at.Epoch && h.Pending < PendingFor
}
