package cluster

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// The log keeps what is not on the disks of all living members, or of two if it is half
// full. What a copy has that is not synced does not count, nor does a disk of a member that
// is silent, ends, or does not belong to the cluster.
func TestExpendable(t *testing.T) {
	t.Parallel()
	store, other := chain.ID{1}, chain.ID{2}
	living := func(name string, synced uint64, change func(*peer)) peer {
		p := peer{heartbeat: heartbeat{Member: name, Store: hex.EncodeToString(store[:]), Generation: 1, Entry: 20, Synced: synced}, heard: time.Now().Add(time.Hour)}
		if change != nil {
			change(&p)
		}
		return p
	}
	const enough = keepBytes + 1
	for _, c := range []struct {
		what  string
		peers []peer
		log   LogState
		want  uint64 // first entry that stays; 0: all stay
	}{
		{"two disks", []peer{living("b", 7, nil)}, LogState{Bytes: enough}, 8},
		{"three disks", []peer{living("b", 7, nil), living("c", 3, nil)}, LogState{Bytes: enough}, 4},
		{"the own disk is behind", []peer{living("b", 15, nil)}, LogState{Bytes: enough}, 11},
		{"one disk", nil, LogState{Bytes: enough}, 0},
		{"one disk in a full log", nil, LogState{Bytes: enough, MaxBytes: enough}, 0},
		{"two of three disks in a log that is half full", []peer{living("b", 7, nil), living("c", 3, nil)}, LogState{Bytes: enough, MaxBytes: 2*enough - 1}, 8},
		{"three disks in a log with room", []peer{living("b", 7, nil), living("c", 3, nil)}, LogState{Bytes: enough, MaxBytes: 2 * enough}, 4},
		{"little in the log", []peer{living("b", 7, nil)}, LogState{Bytes: 1000}, 0},
		{"a silent member", []peer{living("b", 7, func(p *peer) { p.heard = time.Now().Add(-time.Hour) })}, LogState{Bytes: enough}, 0},
		{"a member that has ended", []peer{living("b", 7, func(p *peer) { p.Gone = true })}, LogState{Bytes: enough}, 0},
		{"a member that objects", []peer{living("b", 7, func(p *peer) { p.Objection = "broken" })}, LogState{Bytes: enough}, 0},
		{"a member of another store", []peer{living("b", 7, func(p *peer) { p.Store = hex.EncodeToString(other[:]) })}, LogState{Bytes: enough}, 0},
		{"a member of another generation", []peer{living("b", 7, func(p *peer) { p.Generation = 2 })}, LogState{Bytes: enough}, 0},
		{"a new member without a copy", []peer{living("b", 7, nil), living("c", 0, func(p *peer) { *p = peer{heartbeat: heartbeat{Member: "c"}, heard: p.heard} })}, LogState{Bytes: enough}, 1},
	} {
		d := &DB{options: Options{Name: "a", Members: []string{"a", "b", "c"}}, peers: newPeers("a", Silence)}
		d.status.opened(chain.Head{Entry: 10, Store: store, Generation: 1})
		d.status.moved(chain.Head{Entry: 20, Store: store, Generation: 1}, time.Time{}, false)
		for _, p := range c.peers {
			d.peers.all[p.Member] = p
		}
		if got := (upkeep{d}).expendable(c.log); got != c.want {
			t.Errorf("%s: the log keeps what begins at %d, expected %d", c.what, got, c.want)
		}
	}
	alone := &DB{options: Options{Name: "a", Members: []string{"a"}}, peers: newPeers("a", Silence)}
	alone.status.opened(chain.Head{Entry: 10, Store: store, Generation: 1})
	if got := (upkeep{alone}).expendable(LogState{Bytes: enough}); got != 11 {
		t.Errorf("the only member: the log keeps what begins at %d, expected 11", got)
	}
}

// stubLog is a log that is not there; stubMembers answer each request with the same reply.
type (
	stubLog struct {
		Log
		created int
	}
	stubMembers struct {
		Members
		reply []byte
	}
)

func (l *stubLog) Create(context.Context) error {
	l.created++
	return errors.New("out of reach")
}

func (m stubMembers) Ask(context.Context, string, []byte) ([]byte, error) { return m.reply, nil }

// A member that has a copy does not make an empty log in the place of a log that is gone.
func TestFoundWithACopy(t *testing.T) {
	t.Parallel()
	for _, has := range []bool{false, true} {
		log := &stubLog{}
		d := &DB{options: Options{Name: "a", Init: true}, peers: newPeers("a", Silence)}
		var follows Log = log
		d.current.Store(&follows)
		if has {
			d.tail.head.Entry = 5
		}
		d.status.opened(d.tail.head)
		if err := d.found(t.Context()); err == nil || errors.Is(err, ErrNoLog) != has || (log.created > 0) == has {
			t.Errorf("with a copy %v: %v, and %d attempts to make a log", has, err, log.created)
		}
	}
}

// A checkpoint from which the log does not go on any more is not fetched.
func TestOldCheckpoint(t *testing.T) {
	t.Parallel()
	const first = 10
	for entry, old := range map[uint64]bool{first - 2: true, first - 1: false} {
		reply, err := json.Marshal(manifest{Checkpoint: "x", Entry: entry})
		if err != nil {
			t.Fatal(err)
		}
		in, err := local.Receive("/copy", local.Options{FS: vfs.NewMem()})
		if err != nil {
			t.Fatal(err)
		}
		d := &DB{members: stubMembers{reply: reply}}
		d.status.observe(LogState{First: first})
		if err := (checkpoints{d}).fetchFrom(t.Context(), in, "b", 1); errors.Is(err, chain.ErrBehind) != old || !old && err != nil {
			t.Errorf("a checkpoint of entry %d, when the log begins at %d: %v", entry, first, err)
		}
	}
}
