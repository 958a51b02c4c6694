package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

const (
	disksEvery = time.Second // between looks at the disk of a member

	// reclaimEvery is the time between calls that make the copy free the space of cleared rows. While the disk is
	// full, no writes fill its memory tables soon.
	reclaimEvery = 3 * time.Second
)

// disks watches the free space of the members' disks.
type disks struct{ *member }

// watch looks whether the disks of the members have room, until ctx ends.
func (ds disks) watch(ctx context.Context) {
	var reclaimed time.Time
	for {
		if full := ds.look(); full && time.Since(reclaimed) >= reclaimEvery {
			reclaimed = time.Now()
			ds.copy().Reclaim()
		}
		if pause(ctx, disksEvery) != nil {
			return
		}
	}
}

// look reports whether the disk of this member is full.
func (ds disks) look() (full bool) {
	var own error
	if ds.options.DiskFull != nil {
		own = ds.options.DiskFull()
	}
	why := own
	if why == nil {
		why = ds.full()
	}
	if was := ds.self.noteDisks(own != nil, why); (was == nil) != (why == nil) {
		if why != nil {
			ds.slog.Warn("kv/cluster: a disk is nearly full", "why", why)
		} else {
			ds.slog.Info("kv/cluster: the disks have room again")
		}
		ds.announce()
	}
	return own != nil
}

// full names the members with full disks, if the others are no majority of the members, each of which has a part of
// the log. A silent member counts as full: its disk cannot take entries either.
func (ds disks) full() error {
	var full []string
	room := 1
	all, _ := ds.peers.Heard()
	for _, p := range all {
		switch {
		case !p.Runs(peers.LivingFor, time.Now()), p.Partless:
		case p.DiskFull:
			full = append(full, p.Member)
		default:
			room++
		}
	}
	if len(full) == 0 || room > len(ds.options.Members)/2 {
		return nil
	}
	return fmt.Errorf("no majority of the nodes has a disk with room: those of %s are nearly full", strings.Join(full, ", "))
}
