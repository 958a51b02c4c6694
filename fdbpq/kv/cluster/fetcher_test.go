package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// offers are checkpoints of members, whose files have the same names. A file of a member that is
// away does not come.
type offers struct {
	Members
	away map[string]string // the file by member
}

func (offers) MaxMessage() int { return 1 << 10 }

func (o offers) Ask(_ context.Context, member string, message []byte) ([]byte, error) {
	var r request
	if err := json.Unmarshal(message, &r); err != nil {
		return nil, err
	}
	if r.File == "" {
		m := manifest{Checkpoint: "of " + member, Generation: 1, Entry: 5}
		for _, name := range []string{"1", "2", "3"} {
			m.Files = append(m.Files, local.CheckpointFile{Name: name, Size: 1})
		}
		return json.Marshal(m)
	}
	if o.away[member] == r.File {
		return nil, errors.New("the connection broke")
	}
	return chain.Seal([]byte(member)), nil
}

// Several members begin to send their checkpoints, and the connection to each breaks. What is
// there is of one of them at any time.
func TestCheckpointIsOfOneMember(t *testing.T) {
	t.Parallel()
	for range 20 { // members are asked in any order
		disk := vfs.NewMem()
		o := offers{away: map[string]string{"b": "2"}}
		m := &member{dir: "/copy", members: o, peers: peers.New("a", peers.DefaultSilence), slog: slog.New(slog.DiscardHandler)}
		m.options.Replica = local.Options{FS: disk}
		m.self.opened(chain.Head{})
		begin := func(members ...string) {
			t.Helper()
			for _, name := range members {
				message, err := json.Marshal(peers.Heartbeat{Member: name, Role: peers.Follower, Generation: 1, Entry: 5})
				if err != nil {
					t.Fatal(err)
				}
				m.peers.Hear(message)
			}
			if err := (fetcher{&tail{member: m}}).fetch(t.Context(), 1, chain.Base{}); err == nil {
				t.Fatal("a checkpoint without all of its files was fetched")
			}
		}
		begin("b")
		o.away["b"], o.away["c"] = "3", "2"
		begin("c")
		owner := content(t, disk, "LABEL")
		for _, name := range []string{"1", "2", "3"} {
			if got := content(t, disk, name); got != "" && !strings.Contains(owner, `"Member":"`+got+`"`) {
				t.Fatalf("file %s is of member %s in %s", name, got, owner)
			}
		}
	}
}

// content returns the content of a file of the checkpoint on its way, or nothing.
func content(t *testing.T, disk *vfs.MemFS, name string) string {
	t.Helper()
	f, err := disk.Open("/copy.incoming/" + name)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// stubMembers answer each request with the same reply.
type stubMembers struct {
	Members
	reply []byte
}

func (m stubMembers) Ask(context.Context, string, []byte) ([]byte, error) { return m.reply, nil }

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
		m := &member{members: stubMembers{reply: reply}}
		m.self.observe(LogState{First: first})
		if err := (fetcher{&tail{member: m}}).fetchFrom(t.Context(), in, "b", 1); errors.Is(err, chain.ErrBehind) != old || !old && err != nil {
			t.Errorf("a checkpoint of entry %d, when the log begins at %d: %v", entry, first, err)
		}
	}
}
