package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// disksEvery lies between looks at the disk of a member.
const disksEvery = time.Second

// watchDisks looks whether the disks of the members have room, until ctx ends.
func (d *DB) watchDisks(ctx context.Context) {
	for {
		d.lookAtDisks()
		if pause(ctx, disksEvery) != nil {
			return
		}
	}
}

func (d *DB) lookAtDisks() {
	var own error
	if d.options.DiskFull != nil {
		own = d.options.DiskFull()
	}
	why := own
	if why == nil {
		why = d.fullDisks()
	}
	if was := d.status.noteDisks(own != nil, why); (was == nil) != (why == nil) {
		if why != nil {
			d.slog.Warn("kv/cluster: a disk is nearly full", "why", why)
		} else {
			d.slog.Info("kv/cluster: the disks have room again")
		}
		d.announce()
	}
}

// fullDisks says whose disks are full, if the others are no majority of the members, each of
// which has a part of the log. Members that are silent cannot take it either.
func (d *DB) fullDisks() error {
	var full []string
	room := 1
	all, _ := d.peers.heard()
	for _, p := range all {
		switch {
		case !p.runs(livingFor):
		case p.DiskFull:
			full = append(full, p.Member)
		default:
			room++
		}
	}
	if len(full) == 0 || room > len(d.options.Members)/2 {
		return nil
	}
	return fmt.Errorf("no majority of the nodes has a disk with room: those of %s are nearly full", strings.Join(full, ", "))
}

// DiskFull says why the store should take no new items because of disks, or nil: that of this
// member is nearly full, or those of so many others that the log may soon take nothing.
func (d *DB) DiskFull() error { return d.status.disks() }

// noteDisks notes how disks are, and returns what was noted before.
func (s *status) noteDisks(own bool, why error) (before error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.full.why
	s.full.own, s.full.why = own, why
	return before
}

func (s *status) disks() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full.why
}
