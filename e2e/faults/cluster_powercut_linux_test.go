package faults_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/disk"
	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/testenv"
)

// recordedNodes have the steps of three nodes, each on a disk of its own, and the history of
// their clients.
type recordedNodes struct {
	recorded
	nodes *testenv.Nodes
	disks [][]disk.Event
}

// recordNodes has clients use three nodes that are killed and stopped on the way.
func recordNodes(t *testing.T, steps, padding int) *recordedNodes {
	r, recorder := &recordedNodes{recorded: recorded{random: pqd.Seeded(t), attempt: 10 * time.Second}}, history.NewRecorder()
	var disks []*disk.Disk
	var dirs []string
	for range 3 {
		d := disk.Mount(t, recorder.Now)
		disks, dirs = append(disks, d), append(dirs, filepath.Join(d.Dir, "made", "by pqd"))
	}
	r.nodes = testenv.NewNodesIn(t, dirs, smallSpare)
	x := &pqd.NodeFaults{Nodes: r.nodes, Random: r.random}
	r.work(t, r.nodes.URL(), recorder, steps, padding, []func(){
		func() { x.Happen(t, "SIGKILL of the active node") },
		func() { x.Happen(t, "a rolling restart") },
		func() { x.Happen(t, "SIGKILL of two") },
	})
	r.end = recorder.Now()
	for _, p := range r.nodes.All {
		p.Kill(t)
	}
	for _, d := range disks {
		r.disks = append(r.disks, d.Events())
	}
	return r
}

// cut is what the disks have when the power of all fails at once, at the next change or sync
// of one of them behind a random one: all that was synced, or also a part of what was not.
func (r *recordedNodes) cut() (trees []disk.Tree, moment time.Duration) {
	events := r.disks[r.random.IntN(len(r.disks))]
	moment = events[r.random.IntN(len(events))].At
	for _, events := range r.disks {
		replay := disk.NewReplay(events, disk.Journaled)
		for _, e := range events {
			if e.At >= moment {
				break
			}
			replay.Next()
		}
		tree := replay.Safe()
		if r.random.IntN(2) == 0 {
			tree = replay.Part(r.random)
		}
		trees = append(trees, tree)
	}
	return trees, moment
}

// judge starts the nodes on their disks after a power cut, and has clients continue.
func (r *recordedNodes) judge(t *testing.T, trees []disk.Tree, moment time.Duration, seed uint64) {
	var dirs []string
	for _, tree := range trees {
		dirs = append(dirs, filepath.Join(unfold(t, tree), "made", "by pqd"))
	}
	r.nodes.StartIn(t, dirs)
	defer func() {
		for _, p := range r.nodes.All {
			p.Kill(t)
			testenv.CheckDir(t, p.Dir)
		}
	}()
	r.nodes.Active(t)
	r.resume(t, r.nodes.URL(), moment, seed)()
}

// Whenever the power of all three nodes fails at once while they make their store, use it,
// end and start again, they start on their disks by themselves, and every answer to a client
// still holds. The disks keep changes of names in their order, as ext4 and XFS do: JetStream
// depends on that, because it syncs no directory when it makes a file.
func TestClusterPowerCut(t *testing.T) {
	t.Parallel()
	if *flagCuts == 0 {
		t.Skip("no -pq.cuts: it needs file systems of its own, and takes minutes")
	}
	r := recordNodes(t, 60, 2000)
	t.Logf("%s; the disks have %d, %d and %d changes and syncs", history.Summary(r.operations), len(r.disks[0]), len(r.disks[1]), len(r.disks[2]))
	for cut := range (*flagCuts + 99) / 100 {
		trees, moment := r.cut()
		seed := r.random.Uint64()
		if !t.Run(fmt.Sprintf("%d after %s", cut, moment), func(t *testing.T) { r.judge(t, trees, moment, seed) }) {
			break // the nodes may still run
		}
	}
}
