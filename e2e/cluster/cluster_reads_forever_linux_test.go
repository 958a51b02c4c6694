package cluster_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// A node whose NATS server never ends to read its files says so. Without them it gets
// everything from the other nodes, and stands for the one that is lost next.
func TestNodeThatReadsForEver(t *testing.T) {
	nightly.Only(t, "kv/cluster has disks that hang")
	t.Parallel()
	nodes := testenv.NewNodes(t)
	bad, lost := nodes.All[0], nodes.All[1]
	nc := nodes.Active(t).Connect(t)
	pqd.AskServing(t, nc, "pq.jobs.push.1", "before")
	bad.Stop(t)
	files := filepath.Join(bad.Data(), "nats", "jetstream")
	blocks, err := filepath.Glob(filepath.Join(files, "*", "streams", "*", "msgs", "1.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("found %v, %v: expected one block", blocks, err)
	}
	if err := os.Remove(blocks[0]); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(blocks[0], 0o600); err != nil { // nobody writes
		t.Fatal(err)
	}
	bad.Begin(t)
	bad.AwaitLog(t, "the embedded NATS server still reads its files")
	pqd.AskServing(t, nodes.Active(t, bad).Connect(t), "pq.jobs.push.1", "meanwhile")
	bad.Kill(t)
	if err := os.Rename(files, files+"-damaged"); err != nil {
		t.Fatal(err)
	}
	bad.Begin(t)
	for _, p := range nodes.All {
		p.AwaitReady(t)
	}
	lost.Kill(t)
	nc = nodes.Active(t, lost).Connect(t)
	for _, expected := range []string{"before", "meanwhile"} {
		if got := string(pqd.AskServing(t, nc, "pq.jobs.pop.min", "").Data); got != expected {
			t.Errorf("popped %q, expected %q", got, expected)
		}
	}
}
