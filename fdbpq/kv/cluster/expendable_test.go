package cluster

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// The log keeps what is not on the disks of all living members, or of two if it is half
// full. What a copy has that is not synced does not count, nor does a disk of a member that
// is silent, ends, or does not belong to the cluster.
func TestExpendable(t *testing.T) {
	t.Parallel()
	store, other := chain.ID{1}, chain.ID{2}
	living := func(name string, synced uint64, change func(*peers.Peer)) peers.Peer {
		p := peers.Peer{
			Heartbeat: peers.Heartbeat{Member: name, Store: hex.EncodeToString(store[:]), Generation: 1, Entry: 20, Synced: synced},
			Heard:     time.Now().Add(time.Hour),
		}
		if change != nil {
			change(&p)
		}
		return p
	}
	empty := func(p *peers.Peer) { *p = peers.Peer{Heartbeat: peers.Heartbeat{Member: "c"}, Heard: p.Heard} }
	const enough = keepBytes + 1
	for _, c := range []struct {
		what  string
		peers []peers.Peer
		log   LogState
		want  uint64 // first entry that stays; 0: all stay
	}{
		{"two disks", []peers.Peer{living("b", 7, nil)}, LogState{Bytes: enough}, 8},
		{"three disks", []peers.Peer{living("b", 7, nil), living("c", 3, nil)}, LogState{Bytes: enough}, 4},
		{"the own disk is behind", []peers.Peer{living("b", 15, nil)}, LogState{Bytes: enough}, 11},
		{"one disk", nil, LogState{Bytes: enough}, 0},
		{"one disk in a full log", nil, LogState{Bytes: enough, MaxBytes: enough}, 0},
		{"two of three disks in a log that is half full", []peers.Peer{living("b", 7, nil), living("c", 3, nil)}, LogState{Bytes: enough, MaxBytes: 2*enough - 1}, 8},
		{"three disks in a log with room", []peers.Peer{living("b", 7, nil), living("c", 3, nil)}, LogState{Bytes: enough, MaxBytes: 2 * enough}, 4},
		{"little in the log", []peers.Peer{living("b", 7, nil)}, LogState{Bytes: 1000}, 0},
		{"a silent member", []peers.Peer{living("b", 7, func(p *peers.Peer) { p.Heard = time.Now().Add(-time.Hour) })}, LogState{Bytes: enough}, 0},
		{"a member that has ended", []peers.Peer{living("b", 7, func(p *peers.Peer) { p.Gone = true })}, LogState{Bytes: enough}, 0},
		{"a member that objects", []peers.Peer{living("b", 7, func(p *peers.Peer) { p.Objection = "broken" })}, LogState{Bytes: enough}, 0},
		{"a member of another store", []peers.Peer{living("b", 7, func(p *peers.Peer) { p.Store = hex.EncodeToString(other[:]) })}, LogState{Bytes: enough}, 0},
		{"a member of another generation", []peers.Peer{living("b", 7, func(p *peers.Peer) { p.Generation = 2 })}, LogState{Bytes: enough}, 0},
		{"a new member without a copy", []peers.Peer{living("b", 7, nil), living("c", 0, empty)}, LogState{Bytes: enough}, 1},
	} {
		var s self
		s.opened(chain.Head{Entry: 10, Store: store, Generation: 1})
		s.moved(chain.Head{Entry: 20, Store: store, Generation: 1}, time.Time{}, false)
		if got := expendable(c.log, s.now().heartbeat(time.Now()), c.peers, 3, time.Now()); got != c.want {
			t.Errorf("%s: the log keeps what begins at %d, expected %d", c.what, got, c.want)
		}
	}
	var alone self
	alone.opened(chain.Head{Entry: 10, Store: store, Generation: 1})
	if got := expendable(LogState{Bytes: enough}, alone.now().heartbeat(time.Now()), nil, 1, time.Now()); got != 11 {
		t.Errorf("the only member: the log keeps what begins at %d, expected 11", got)
	}
}
