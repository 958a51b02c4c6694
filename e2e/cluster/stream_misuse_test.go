package cluster_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// The copy of one store is put beside the log of another one: pqd says so and serves nothing,
// and the other store has what it had. As long as it contradicts the log, no pqd takes over.
func TestCopyOfAnotherStore(t *testing.T) {
	t.Parallel()
	one, other := pqd.NewStreamStore(t, "64M"), pqd.NewStreamStore(t, "64M")
	for _, s := range []*pqd.StreamStore{one, other} {
		s.Init(t)
		p := testenv.Daemon(t, s.Env("a")...)
		s.Ask(t, "pq.jobs.push.1", "of "+s.Work)
		p.Stop(t)
	}
	wrong := t.TempDir()
	if err := os.CopyFS(filepath.Join(wrong, "copy-pq"), os.DirFS(filepath.Join(one.Work, "a", "copy-pq"))); err != nil {
		t.Fatal(err)
	}
	mistaken := testenv.Launch(t, append(other.Env("b"), "PQ_DATA="+wrong)...)
	mistaken.AwaitLog(t, "this is a copy of")
	right := testenv.Launch(t, other.Env("a")...)
	mistaken.Stop(t)
	right.AwaitReady(t)
	testenv.Await(t, "the store serves", func() bool {
		code, _ := pqd.Get(t, right.HTTP+"/readyz")
		return code == http.StatusOK
	})
	if got := string(other.Ask(t, "pq.jobs.pop.min", "").Data); got != "of "+other.Work {
		t.Errorf("popped %q, expected the item of the other store", got)
	}
}

// Two pqd have one name by mistake: both say so, one serves, and nothing is lost.
func TestTwoNodesOfOneName(t *testing.T) {
	t.Parallel()
	s := pqd.NewStreamStore(t, "64M")
	s.Init(t)
	first := testenv.Daemon(t, s.Env("a")...)
	s.Ask(t, "pq.jobs.push.1", "kept")
	second := testenv.Launch(t, append(s.Env("a"), "PQ_DATA="+t.TempDir())...)
	for _, p := range []*testenv.Process{first, second} {
		p.AwaitLog(t, "another process has the name of this member")
	}
	first.Kill(t)
	second.AwaitReady(t)
	if got := string(s.Ask(t, "pq.jobs.pop.min", "").Data); got != "kept" {
		t.Errorf("popped %q, expected the item", got)
	}
}
