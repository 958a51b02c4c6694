package cluster_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/disk"
	"github.com/pqbridge/pqbridge/testenv"
)

// fullDisks are three nodes, each on a disk of its own, of which some are full at times.
type fullDisks struct {
	*pqd.Campaign
	nodes *testenv.Nodes
	disks []*disk.Disk
}

// fill fills disks for up to three seconds, starts the nodes again that have ended, and waits
// until one of them serves.
func (f *fullDisks) fill(t testing.TB) string {
	what := []string{"the disk of the active node is full", "the disk of a node is full", "all disks are full"}[f.Random.IntN(3)]
	full := f.disks
	switch active := slices.Index(f.nodes.All, f.nodes.Active(t)); what {
	case "the disk of the active node is full":
		full = full[active : active+1]
	case "the disk of a node is full":
		i := f.Random.IntN(len(full))
		full = full[i : i+1]
	}
	before := 0
	for _, d := range full {
		before += d.Failed()
		d.Resize(d.Used() + f.Random.Int64N(20<<10))
	}
	late := time.After(5 * time.Second)
	for met := 0; met <= before; {
		met = 0
		for _, d := range full {
			met += d.Failed()
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			met = before + 1
		}
	}
	<-time.After(time.Duration(f.Random.Int64N(int64(3 * time.Second))))
	for _, d := range full {
		d.Resize(1 << 40)
	}
	ended := 0
	for late := testenv.BeginWait(); ; {
		for _, p := range f.nodes.All {
			if !p.Running() {
				if code := p.AwaitEnd(t); code != 1 {
					t.Errorf("%s: a node ended with %d, expected 1", what, code)
				}
				ended++
				p.Start(t)
			}
		}
		if f.serves(t) {
			break
		}
		if late.Over() {
			t.Fatalf("%s: there is room again for %s, and the nodes do not serve", what, testenv.Patience())
		}
	}
	return fmt.Sprintf("%s: %d ended", what, ended)
}

// serves reports whether a push is acknowledged.
func (f *fullDisks) serves(t testing.TB) bool {
	nc, err := f.Dial()()
	if err != nil {
		return false
	}
	defer nc.Close()
	reply, err := nc.Request("pq.alive.push.1", nil, time.Second)
	return err == nil && testenv.IsAck(reply)
}

// Disks of nodes are full for a while, all three at once too: requests are refused with
// certainty or have no answer, nothing that was acknowledged is lost, and the nodes go on
// when there is room, or end and can be started again.
func TestNodesOnFullDisks(t *testing.T) {
	t.Parallel()
	if *pqd.Ops == 0 {
		t.Skip("no -pq.ops: it needs file systems of its own")
	}
	f := &fullDisks{Campaign: &pqd.Campaign{Random: pqd.Seeded(t), Faults: make(map[string]int), Attempt: 10 * time.Second}}
	began := time.Now()
	var dirs []string
	for range 3 {
		d := disk.Mount(t, func() time.Duration { return time.Since(began) })
		f.disks, dirs = append(f.disks, d), append(dirs, filepath.Join(d.Dir, "data"))
	}
	// Nodes refuse pushes before their disks are full, unless they are told not to.
	f.nodes = testenv.NewNodesIn(t, dirs, []string{"PQ_MIN_FREE=0", "PQ_MIN_FREE="}[f.Random.IntN(2)])
	f.URL, f.Fault = f.nodes.URL(), f.fill
	for done, round := 0, 0; done < *pqd.Ops && !t.Failed(); round++ {
		const workers, steps = 8, 100
		done += f.Long(t, fmt.Sprint("r", round), workers, steps, f.Moments(3, workers*steps)...)
		for _, what := range slices.Sorted(maps.Keys(f.Faults)) {
			t.Logf("%4d %s", f.Faults[what], what)
		}
		t.Logf("%d operations", done)
	}
}
