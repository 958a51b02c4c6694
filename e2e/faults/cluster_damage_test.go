package faults_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/history"
	"github.com/pqbridge/pqbridge/testenv"
)

// keptNodes are nodes that have ended: their data, and the history of their clients.
type keptNodes struct {
	recorded
	nodes *testenv.Nodes
	dirs  []string
}

// keepNodes has clients use three nodes that are stopped and killed on the way, and at last
// killed. More may happen before a further round of work.
func keepNodes(t *testing.T, more ...func(*keptNodes)) *keptNodes {
	r, recorder := &keptNodes{recorded: recorded{random: pqd.Seeded(t), attempt: 10 * time.Second}}, history.NewRecorder()
	for range 3 {
		r.dirs = append(r.dirs, filepath.Join(t.TempDir(), "data"))
	}
	r.nodes = testenv.NewNodesIn(t, r.dirs)
	x := &pqd.NodeFaults{Nodes: r.nodes, Random: r.random}
	between := []func(){
		func() { x.Happen(t, "SIGKILL of the active node") },
		func() { x.Happen(t, "a rolling restart") },
	}
	for _, happen := range more {
		between = append(between, func() { happen(r) })
	}
	r.work(t, r.nodes.URL(), recorder, 60, 2000, between)
	r.end = recorder.Now()
	for _, p := range r.nodes.All {
		if p.Running() {
			p.Kill(t)
		}
	}
	return r
}

// unfold gives a node a copy of the data that it had, in which one file is damaged.
func (r *keptNodes) unfold(t *testing.T, node int, d damage) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	all := pqd.Files(t, r.dirs[node])
	if d.file != "" {
		all[d.file] = d.content
	}
	for name, content := range all {
		to := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r.nodes.All[node].Move(dir)
}

// start starts the nodes on a copy of their data in which one file of one node is damaged,
// and returns the outcome. The others serve. The damaged node becomes ready, or says what is
// wrong and is replaced by an empty one. Then another node is killed, so the damaged one
// stands for what both had.
func (r *keptNodes) start(t *testing.T, node int, d damage, late bool, seed uint64) (outcome string) {
	for i := range r.nodes.All {
		if i == node {
			r.unfold(t, i, d)
		} else {
			r.unfold(t, i, damage{})
		}
	}
	bad := r.nodes.All[node]
	others := slices.DeleteFunc(slices.Clone(r.nodes.All), func(p *testenv.Process) bool { return p == bad })
	defer func() {
		for _, p := range r.nodes.All {
			if p.Running() {
				p.Kill(t)
			}
			if p != bad || outcome != "" && strings.Contains(outcome, "is replaced") {
				testenv.CheckDir(t, p.Dir)
			}
		}
	}()
	for _, p := range r.nodes.All {
		if p != bad || !late {
			p.Begin(t)
		}
	}
	for _, p := range others {
		p.AwaitReady(t)
	}
	r.nodes.Active(t)
	if late {
		pqd.PushOnce(t, others[0], "later", "while the damaged node was down")
		bad.Begin(t)
	}
	outcome = "it goes on"
	if reason := unready(t, bad); reason != "" {
		outcome = "it is replaced, because it says " + reason
		if bad.Running() {
			bad.Kill(t)
		}
		bad.Move(filepath.Join(t.TempDir(), "data"))
		bad.Start(t)
	}
	others[0].Kill(t)
	r.nodes.Active(t, others[0])
	r.resume(t, r.nodes.URL(), r.end, seed)()
	if late {
		m, err := r.nodes.Active(t, others[0]).Connect(t).Request("pq.later.pop.min", nil, testenv.Patience())
		if err != nil || string(m.Data) != "while the damaged node was down" {
			t.Errorf("popped %+v, %v, expected what was pushed while the damaged node was down", m, err)
		}
	}
	if outcome == "it goes on" {
		if page := bad.Page(t, "/readyz"); strings.Contains(page, "are damaged") {
			if !strings.Contains(page, filepath.Base(d.file)) {
				t.Errorf("/readyz: %s", page)
			}
			outcome = "it goes on, and names the file when it meets the damage"
		}
	}
	others[0].Start(t)
	return outcome
}

// unready is why a node does not become ready, or nothing when it is.
func unready(t *testing.T, p *testenv.Process) (reason string) {
	t.Helper()
	for late := time.After(testenv.Times(time.Minute)); ; {
		var page string
		if page = p.Page(t, "/readyz"); strings.Contains(page, `"ok"`) {
			p.AwaitReady(t)
			return ""
		}
		if strings.Contains(page, "are damaged") {
			return "in /readyz that files are damaged"
		}
		select {
		case <-p.Exited():
			code := p.AwaitEnd(t)
			if code != 1 || !strings.Contains(p.Log(), p.Dir) {
				t.Errorf("pqd ended with %d, expected 1 and the name of a file: %s", code, p.Log())
			}
			return "as it ends what it cannot read"
		case <-late:
			return "in /readyz: " + page
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Whatever file of one node is damaged while it is down, the cluster goes on, and nothing
// acknowledged is missing when that node and one other are left.
func TestDamagedNode(t *testing.T) {
	t.Parallel()
	if *flagFlips == 0 {
		t.Skip("no -pq.flips: it starts three nodes as often")
	}
	r, results := keepNodes(t), make(map[string]int)
	t.Log(history.Summary(r.operations))
	for n := range *flagFlips {
		node, late, seed := r.random.IntN(len(r.dirs)), r.random.IntN(2) == 0, r.random.Uint64()
		all := pqd.Files(t, r.dirs[node])
		if r.random.IntN(2) == 0 { // what the node has of the log
			maps.DeleteFunc(all, func(name string, _ []byte) bool { return filepath.Ext(name) != ".blk" })
		}
		d := damaged(all, r.random)
		if string(d.content) == string(all[d.file]) {
			continue
		}
		if !t.Run(fmt.Sprintf("%d %s, %s, late %t", n, strings.ReplaceAll(d.file, "/", " "), d.what, late), func(t *testing.T) {
			outcome := r.start(t, node, d, late, seed)
			t.Log(outcome)
			results[strings.TrimRight(filepath.Dir(d.file), "0123456789")+": "+outcome]++
		}) {
			break
		}
	}
	for _, what := range slices.Sorted(maps.Keys(results)) {
		t.Logf("%4d %s", results[what], what)
	}
}
