package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// offers are checkpoints of members, whose files have the same names. A file of a member that is
// away does not come.
type offers struct {
	away map[string]string // the file by member
}

func (o offers) of(member string) Source {
	ask := func(_ context.Context, message []byte) ([]byte, error) {
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
	return Source{Member: member, Ask: ask, MaxReply: func() int { return 1 << 10 }}
}

// Several members begin to send their checkpoints, and the connection to each breaks. What is
// there is of one of them at any time.
func TestCheckpointIsOfOneMember(t *testing.T) {
	t.Parallel()
	for _, members := range [][]string{{"b", "c"}, {"c", "b"}} { // members are asked in any order
		disk := vfs.NewMem()
		o := offers{away: map[string]string{"b": "2"}}
		begin := func(members ...string) {
			t.Helper()
			in, err := local.Receive("/copy", local.Options{FS: disk})
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range members {
				if err := o.of(name).Fetch(t.Context(), in, 1, 1); err == nil {
					t.Fatal("a checkpoint without all of its files was fetched")
				}
			}
		}
		begin("b")
		o.away["b"], o.away["c"] = "3", "2"
		begin(members...)
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

// A checkpoint from which the log does not go on any more is not fetched.
func TestOldCheckpoint(t *testing.T) {
	t.Parallel()
	const first = 10
	for entry, old := range map[uint64]bool{first - 2: true, first - 1: false} {
		err := fetched(t, manifest{Checkpoint: "x", Entry: entry}, 1, first)
		if errors.Is(err, chain.ErrBehind) != old || !old && err != nil {
			t.Errorf("a checkpoint of entry %d, when the log begins at %d: %v", entry, first, err)
		}
	}
}

// fetched fetches the checkpoint of a member that has this one, for a generation whose log begins at first.
func fetched(t *testing.T, m manifest, generation, first uint64) error {
	t.Helper()
	reply, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	in, err := local.Receive("/copy", local.Options{FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	from := Source{Member: "b", Ask: func(context.Context, []byte) ([]byte, error) { return reply, nil }}
	return from.Fetch(t.Context(), in, generation, first)
}

// A checkpoint of another generation is not fetched: a member would go over to that one. A version that knows one
// generation does not name it.
func TestFetchedGeneration(t *testing.T) {
	t.Parallel()
	for generation, other := range map[uint64]bool{0: false, 1: true, 2: false, 3: true} {
		err := fetched(t, manifest{Checkpoint: "x", Generation: generation, Entry: 9}, 2, 1)
		if errors.Is(err, chain.ErrBehind) != other || !other && err != nil {
			t.Errorf("a checkpoint of generation %d in generation 2: %v", generation, err)
		}
	}
}
