package cluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// A flipped bit in what a node's NATS server needs to replicate keeps the node out only as
// long as another node is away: the directory is set aside when both others have all.
func TestDamagedSnapshot(t *testing.T) {
	t.Parallel()
	for name, group := range map[string]string{"of all streams": "_meta_", "of the log": "S-*"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := testenv.NewNodes(t)
			nc := nodes.Active(t).Connect(t)
			pqd.AskServing(t, nc, "pq.jobs.push.1", "kept")
			nc.Close()
			for _, p := range nodes.All { // which writes snapshots
				p.Stop(t)
			}
			bad, away := nodes.All[0], nodes.All[1]
			flip(t, filepath.Join(bad.Data(), "nats", "jetstream", "$SYS", "_js_", group, "snapshots", "*"))
			nodes.All[2].Begin(t)
			bad.Begin(t)
			bad.AwaitLog(t, "Snapshot corrupt")
			before := groupsOf(t, bad)
			if group == "_meta_" {
				bad.AwaitLog(t, "waiting until the other nodes can spare damaged files")
			} else {
				testenv.Await(t, "/readyz says that files are damaged", func() bool {
					return strings.Contains(bad.Page(t, "/readyz"), "files of the NATS server of this node are damaged")
				})
			}
			if now := groupsOf(t, bad); !slices.Equal(now, before) || len(aside(t, bad)) > 0 {
				t.Errorf("without the third node %v became %v", before, now)
			}
			away.Begin(t)
			// Like a service manager, start it again: it ends to set files aside that its server has open, and after a
			// minute in which the others could not spare them.
			for starts := 1; !bad.Ready(t); starts++ {
				if code := bad.AwaitEnd(t); code != 1 || starts == 3 {
					t.Fatalf("start %d ended with exit code %d, expected 1, and 3 starts at most", starts, code)
				}
				bad.Begin(t)
			}
			for _, p := range nodes.All {
				p.AwaitReady(t)
			}
			if all := aside(t, bad); len(all) != 1 || !strings.Contains(bad.Log(), all[0]) {
				t.Errorf("set aside: %v, expected one directory that the log names", all)
			}
			// What the node has stands for the one that is lost now.
			nodes.All[2].Kill(t)
			left := nodes.Active(t, nodes.All[2]).Connect(t)
			if got := string(pqd.AskServing(t, left, "pq.jobs.pop.min", "").Data); got != "kept" {
				t.Errorf("popped %q, expected the item", got)
			}
		})
	}
}

// flip flips a bit of the file with this name.
func flip(t *testing.T, pattern string) {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v: expected one snapshot", found, err)
	}
	content, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 4
	pqd.Write(t, found[0], string(content))
}

// groupsOf are the directories of a node's server that replicate something.
func groupsOf(t *testing.T, p *testenv.Process) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(p.Data(), "nats", "jetstream", "$SYS", "_js_", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// aside are the directories that were set aside.
func aside(t *testing.T, p *testenv.Process) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(p.Data(), "damaged-*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}
