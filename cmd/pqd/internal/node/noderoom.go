package node

import (
	"fmt"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/room"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// nodeRoom says what the active node refuses when its disk, or the log, is nearly full.
type nodeRoom struct {
	copy *room.Copy
	db   *cluster.DB
}

// refusePushesAt is the part of the log's room beyond which pushes are refused. The rest is for settlements and
// pops, which make room.
const refusePushesAt = 0.9

// admit says why new items are refused, or nil.
func (r nodeRoom) admit(int) error {
	if err := r.db.DiskFull(); err != nil {
		return fmt.Errorf("a disk of the store is nearly full: new items are refused, and settles and pops go on: %w", err)
	}
	if fill := r.db.Fill(); fill >= refusePushesAt {
		return fmt.Errorf("the log of the store is %.0f %% full: it takes new items below %.0f %%, and settles and pops go on. It forgets what the disks of two pqd have: are they all running?", 100*fill, 100*refusePushesAt)
	}
	return nil
}

// reserve says why only requests that make room are served, or nil. It asks the disk only when that is known to be nearly
// full: one that hangs must not keep requests waiting.
func (r nodeRoom) reserve() error {
	if r.db.DiskFull() == nil {
		return nil
	}
	return r.copy.Exhausted()
}

// low says why no item is written again, or nil.
func (r nodeRoom) low() error {
	if r.db.DiskFull() == nil {
		return nil
	}
	return r.copy.Low()
}

// last says why only requests that end items are served, or nil.
func (r nodeRoom) last() error {
	if r.db.DiskFull() == nil {
		return nil
	}
	return r.copy.Last()
}
