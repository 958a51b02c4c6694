package cluster

import (
	"context"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// Silence is the default of Options.Silence.
//
// A member is lost when its machine refuses connections, or when two members that run have not heard it for their
// limit. To take a member for lost costs at most a candidacy, never safety: only the log decides who may write. The
// limit is Options.Silence. It grows with the gaps that the other member's heartbeats had lately.
const Silence = 500 * time.Millisecond

const (
	// beatsInSilence is how many heartbeats a limit has.
	beatsInSilence = 5

	// unconfirmedFor is how long a member waits at least for a sign of life of an active member that is not lost
	// before it becomes a candidate; after a failure it waits longer.
	unconfirmedFor = 1500 * time.Millisecond
)

// Options configure a member.
type Options struct {
	// Name is the member's own, the same after each start.
	Name string

	// Members are the names of all, if they are known. They may make the log of a new
	// store as soon as all of them say that they have none.
	Members []string

	// Version is the version of the program; the other members show it.
	Version string

	// Init lets this member make the log of a new store, if there is no log and it
	// has no copy of one.
	Init bool

	// DiskFull says why this member's disk should take no new items, or nil. It is called
	// once a second. nil: the disk always has room.
	DiskFull func() error

	// Sheds reports whether this member refuses large requests unread, while it is active. It is called for each
	// heartbeat. nil: it never does.
	Sheds func() bool

	// LogReplica is for a log of which each of Members has a part on its disk. It says why this disk lacks entries
	// of a generation of the log up to the given entry, or nil. A takeover then needs a majority of members with
	// sound disks. nil: the disks of members have only copies.
	LogReplica func(generation, entry uint64) error

	// Apart is called in a term, at its beginning and every few seconds, while no append is under way and the disks
	// of all Members have the log. It may make another member lead the log, so that the active member and the
	// leader are on different machines: if one machine had both and died, the others could take over only after an
	// election. nil: nothing is called.
	Apart func(ctx context.Context, others []string)

	// Silence is how long two members must not have heard another one to take it for lost. It should be the same for
	// all. 0: the default.
	Silence time.Duration

	// Replica are the options of the copy.
	Replica local.Options
}

// beat is the time between heartbeats.
func (o *Options) beat() time.Duration { return o.Silence / beatsInSilence }

// unconfirmed is how long a member must be silent if no other member confirms its silence.
func (o *Options) unconfirmed() time.Duration { return max(unconfirmedFor, 3*o.Silence) }
