package cluster

import (
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// keepBytes of the log stay although all living members have them on their disks, so that a member that was
// away for a while can go on from there.
const keepBytes = 64 << 20

// expendable returns the first entry that the log has to keep. Earlier entries are on the disks of all living
// members, or of two when the log is half full. Without two such members the log keeps everything.
func expendable(state LogState, own peers.Heartbeat, others []peers.Peer, members int, now time.Time) uint64 {
	keep := uint64(keepBytes)
	if state.MaxBytes > 0 {
		keep = min(keep, state.MaxBytes/4)
	}
	if state.Bytes < keep {
		return 0
	}
	synced := []uint64{own.Synced}
	for _, p := range others {
		ours := p.Entry == 0 || p.Store == own.Store && p.Generation == own.Generation
		if ours && p.Runs(peers.LivingFor, now) && p.Objection == "" {
			synced = append(synced, p.Synced)
		}
	}
	needed := 2
	if members == 1 {
		needed = 1
	}
	if len(synced) < needed {
		return 0
	}
	slices.Sort(synced)
	if state.MaxBytes > 0 && state.Bytes > state.MaxBytes/2 {
		return synced[len(synced)-needed] + 1
	}
	return synced[0] + 1
}
