package cluster_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/chromium"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// What an operator sees of two pqd that keep a store together: /readyz, the metrics, and
// the line of pq doctor, before and after a hand-over.
func TestClusterHealth(t *testing.T) {
	t.Parallel()
	s := pqd.NewStreamStore(t, "64M")
	_, active, follower := s.Pair(t)
	s.Ask(t, "pq.jobs.push.1", "x")
	page := func(p *testenv.Process, path string) string {
		t.Helper()
		code, body := pqd.Get(t, p.HTTP+path)
		if code != http.StatusOK {
			t.Errorf("%s: %d %s, expected 200", path, code, body)
		}
		return body
	}
	expect := func(p *testenv.Process, role string, active, takeovers float64) {
		t.Helper()
		if body := page(p, "/readyz"); !strings.Contains(body, `"role": "`+role+`"`) || !strings.Contains(body, `"status": "ok"`) {
			t.Errorf("/readyz of the %s: %s", role, body)
		}
		testenv.Await(t, "its copy has a spare file", func() bool { return pqd.Metric(t, page(p, "/metrics"), "pq_store_spare_bytes") > 0 })
		numbers := page(p, "/metrics")
		for name, want := range map[string]float64{
			"pq_ready": 1, "pq_cluster_active": active, "pq_cluster_stopped": 0, "pq_cluster_takeovers_total": takeovers,
			"pq_cluster_log_max_bytes": 64 << 20,
		} {
			if found := pqd.Metric(t, numbers, name); found != want {
				t.Errorf("%s of the %s is %v, expected %v", name, role, found, want)
			}
		}
		if appends := pqd.Metric(t, numbers, "pq_cluster_appends_total"); (appends > 0) != (takeovers > 0) {
			t.Errorf("pq_cluster_appends_total of the %s is %v", role, appends)
		}
		if size := pqd.Metric(t, numbers, "pq_cluster_log_bytes"); size <= 0 || size > 1<<20 {
			t.Errorf("pq_cluster_log_bytes of the %s is %v", role, size)
		}
	}
	// same waits until the follower has what the other one had, and lacks nothing that it
	// knows of. Time alone adds entries.
	same := func(active, follower *testenv.Process) (epoch float64) {
		t.Helper()
		testenv.Await(t, "the follower has caught up", func() bool {
			ours, theirs := page(active, "/metrics"), page(follower, "/metrics")
			epoch = pqd.Metric(t, ours, "pq_cluster_epoch")
			return epoch > 0 && epoch == pqd.Metric(t, theirs, "pq_cluster_epoch") &&
				pqd.Metric(t, ours, "pq_cluster_entry") > 1 && pqd.Metric(t, theirs, "pq_cluster_entry") >= pqd.Metric(t, ours, "pq_cluster_entry") &&
				pqd.Metric(t, ours, "pq_cluster_lag_entries") == 0 && pqd.Metric(t, theirs, "pq_cluster_lag_entries") == 0
		})
		return epoch
	}
	epoch := same(active, follower)
	testenv.Await(t, "the size of the log is known", func() bool {
		return pqd.Metric(t, page(active, "/metrics"), "pq_cluster_log_bytes") > 0 && pqd.Metric(t, page(follower, "/metrics"), "pq_cluster_log_bytes") > 0
	})
	expect(active, "active", 1, 1)
	expect(follower, "follower", 0, 0)

	t.Run("console", func(t *testing.T) {
		b := chromium.Need(t).Drive(t)
		b.Open(follower.HTTP + "/#/health")
		b.Until("both nodes are there", `[...document.querySelectorAll("table")].at(-1)?.innerText.replace(/\s+/g, " ").includes("Reason a ") && [...document.querySelectorAll("[data-label=Role]")].map((c) => c.innerText).sort().join() === "active,follower"`)
		b.Until("none is behind", `[...document.querySelectorAll("[data-label='Behind by']")].every((c) => c.innerText === "0 entries")`)
		b.Until("the bridge started as long ago as it is up", `fetch("/v1/system").then((a) => a.json()).then(({ uptime }) => {
			const started = [...document.querySelectorAll("[data-label=Started]")].map((c) => Date.parse(c.innerText));
			return started.length === 1 && Math.abs(Date.now() - 1000 * uptime - started[0]) < 2000;
		})`)
		b.Take("health-nodes")
		b.Defects()
	})
	terminal := follower.Terminal(t)
	terminal.Run(t, testenv.Step{Where: "pq doctor", Command: "pq doctor", Output: "…\nok    cluster      … is active in epoch …, 1 follower, the log is … % full\n…\n"})
	terminal.Run(t, testenv.Step{Where: "step down", Command: "pq cluster step-down", Output: "… has handed over to …\n"})
	terminal.Close(t)
	s.Ask(t, "pq.jobs.push.1", "y")
	if next := same(follower, active); next <= epoch {
		t.Errorf("epoch %v follows epoch %v", next, epoch)
	}
	expect(follower, "active", 1, 1)
	testenv.Await(t, "the former active one follows", func() bool { return strings.Contains(page(active, "/readyz"), `"role": "follower"`) })
	if now := pqd.Metric(t, page(active, "/metrics"), "pq_cluster_active"); now != 0 {
		t.Errorf("pq_cluster_active of the former active one is %v", now)
	}
}

// The active one of three nodes and another one are gone: pq and /readyz name them, and say how many have
// to be there. What pq says of a pqd that does not run is wrong here.
func TestMissingNodesAreNamed(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewNodes(t)
	active := nodes.Active(t)
	left := nodes.All[0]
	if left == active {
		left = nodes.All[1]
	}
	for _, p := range nodes.All {
		if p != left && p != active {
			p.Kill(t)
		}
	}
	active.Kill(t) // the last one, so none takes over
	says := func(args ...string) bool {
		out, err := pqd.Command(t, testenv.Build(t, "cmd/pq"), append([]string{"--server", left.URL, "--timeout", "2s"}, args...)...).CombinedOutput()
		return err != nil && strings.Count(string(out), "was last heard") == 2 && strings.Contains(string(out), "heard: 1 of 3, and with PQ_CLUSTER 2 have to be there")
	}
	const few = "heard: 1 of 3 nodes, and 2 have to be there: start those that are away: "
	testenv.Await(t, "/readyz names both", func() bool {
		code, body := pqd.Get(t, left.HTTP+"/readyz")
		_, names, found := strings.Cut(body, few)
		names, _, _ = strings.Cut(names, `"`)
		return code == http.StatusServiceUnavailable && found && strings.Contains(names, ", ")
	})
	if code, body := pqd.Get(t, left.HTTP+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz: %d %s, and another start would not help", code, body)
	}
	testenv.Await(t, "pq cluster status names both", func() bool { return says("cluster", "status") })
	for _, args := range [][]string{{"doctor"}, {"push", "jobs", "x"}, {"pop", "jobs"}, {"ls"}, {"explain", "jobs"}} {
		testenv.Await(t, "pq "+args[0]+" names both", func() bool { return says(args...) })
	}
}

// Nodes make a log, and start again, although their disks have less room than the log may
// take: what else is on a disk changes.
func TestLogLargerThanDisk(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewNodes(t, "PQ_STORE=jetstream:pq?max_bytes=1000000T")
	pqd.PushOnce(t, nodes.All[0], "jobs", "kept")
	nodes.All[0].Stop(t)
	nodes.All[0].Start(t)
	nc := nodes.All[0].Connect(t)
	pqd.PopOnce(t, nc, "jobs", "kept")
}
