package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// replaceData puts files in the place of what a node that does not run has.
func replaceData(t *testing.T, p *testenv.Process, all map[string][]byte) {
	t.Helper()
	dir := filepath.Dir(p.Dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for name, content := range all {
		to := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// imageOf is the data of a node that runs, as of a machine that was copied.
func imageOf(t *testing.T, p *testenv.Process) map[string][]byte {
	t.Helper()
	p.Pause(t)
	defer p.Resume(t)
	return pqd.Files(t, filepath.Dir(p.Dir))
}

// settledClaims waits until the disks of all nodes that run remember each other as they are now.
func settledClaims(t *testing.T, nodes ...*testenv.Process) {
	t.Helper()
	for _, p := range nodes {
		name := p.Dir + ".claims"
		first, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		testenv.Await(t, "the claims are written", func() bool {
			now, err := os.ReadFile(name)
			if err != nil || string(now) == string(first) {
				return false
			}
			return true
		})
	}
}

// The PQ_DATA of a node goes back while another node is away, and the third one dies: 40
// acknowledged items are on the disk of that alone. The two wait, and say for whom. With the
// third one nothing is lost; an operator may go on without it.
func TestRevertedNode(t *testing.T) {
	t.Parallel()
	if *pqd.Ops == 0 {
		t.Skip("no -pq.ops: three processes start several times, and NATS elects leaders")
	}
	for _, when := range []string{"all were there", "the other one was away", empty} {
		for _, without := range []bool{false, true} {
			if when == empty && without {
				continue // NATS elects no leader that could end the log
			}
			t.Run(fmt.Sprintf("%s, without the third one %t", when, without), func(t *testing.T) {
				testRevertedNode(t, when, without)
			})
		}
	}
}

// empty is when a disk has nothing.
const empty = "it was empty"

func testRevertedNode(t *testing.T, when string, without bool) {
	nodes := testenv.NewNodes(t)
	a := nodes.Active(t)
	others := slices.DeleteFunc(slices.Clone(nodes.All), func(p *testenv.Process) bool { return p == a })
	b, c := others[0], others[1]
	pqd.PushOnce(t, a, "jobs", "early")
	settledClaims(t, a, b, c)
	var old map[string][]byte
	if when == "all were there" {
		old = imageOf(t, b)
		settledClaims(t, a, b, c)
		settledClaims(t, a, b, c)
	}
	c.Stop(t)
	pqd.PushOnce(t, a, "jobs", "between")
	if when == "the other one was away" {
		settledClaims(t, a, b)
		old = imageOf(t, b)
	}
	const late = 40
	for i := range late {
		pqd.PushOnce(t, a, "jobs", fmt.Sprint("late ", i))
	}
	settledClaims(t, a, b)
	b.Kill(t)
	a.Kill(t)
	replaceData(t, b, old)
	b.Begin(t)
	c.Begin(t)
	for _, p := range []*testenv.Process{b, c} {
		testenv.Await(t, "the nodes wait for the third one", func() bool {
			page := p.Page(t, "/readyz")
			return strings.Contains(page, "may be on ") && strings.Contains(page, " alone: start that") && (when == empty || strings.Contains(page, "pqd recover --without"))
		})
	}
	t.Log(c.Page(t, "/readyz"))
	if when != empty {
		recoverBeside(t, c, false, "no answer from")
	}

	want := []string{"early", "between"}
	if without {
		status := c.Page(t, "/readyz")
		_, name, _ := strings.Cut(status, "pqd recover --without ")
		name, _, _ = strings.Cut(name, `\`)
		recoverBeside(t, c, true, "generation 2 has begun", "--yes", "--without", name)
		b.AwaitReady(t)
		c.AwaitReady(t)
		a.Start(t)
	} else {
		for i := range late {
			want = append(want, fmt.Sprint("late ", i))
		}
		a.Begin(t)
		testenv.Await(t, "all nodes serve, with a recovery if they ask for it", func() bool {
			if !slices.ContainsFunc(nodes.All, func(p *testenv.Process) bool { return !strings.Contains(p.Page(t, "/readyz"), `"ok"`) }) {
				return true
			}
			if strings.Contains(a.Page(t, "/readyz"), "pqd recover") {
				code, stdout, stderr := a.RunBeside(t, "recover", "--yes")
				t.Logf("pqd recover: %d\n%s%s", code, stdout, stderr)
			}
			return false
		})
	}
	nc := nodes.Active(t).Connect(t)
	var found []string
	for {
		m, err := nc.Request("pq.jobs.pop.min", nil, testenv.Patience())
		if err != nil || m.Header.Get("Status") == "404" {
			break
		}
		if m.Header.Get("Nats-Service-Error-Code") == "" {
			found = append(found, string(m.Data))
		}
	}
	missing := 0
	for _, body := range want {
		if !slices.Contains(found, body) {
			missing++
		}
	}
	t.Logf("%d of %d items are there", len(found), len(want))
	if without { // the log has three replicas again, so it survives the loss of one
		testenv.Await(t, "the log is complete", func() bool {
			content, err := os.ReadDir(filepath.Join(filepath.Dir(a.Dir), "nats", "jetstream", "PQ_CLUSTER", "streams", "PQ_pq_2"))
			return err == nil && len(content) > 0
		})
	}
	if missing > 0 && !without || without && !slices.Contains(found, "early") {
		t.Errorf("%d of %d acknowledged items are missing: found %q", missing, len(want), found)
	}
}
