package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

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
		d := &DB{options: Options{Name: "a", Init: true}, peers: peers.New("a", peers.DefaultSilence)}
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
