package main_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

// The copy of one store is put beside the log of another one: pqd says so and serves nothing,
// and the other store has what it had. As long as it contradicts the log, no pqd takes over.
func TestCopyOfAnotherStore(t *testing.T) {
	t.Parallel()
	one, other := newStreamStore(t, "64M"), newStreamStore(t, "64M")
	for _, s := range []*streamStore{one, other} {
		s.init(t)
		p := testenv.Daemon(t, s.env("a")...)
		s.ask(t, "pq.jobs.push.1", "of "+s.work)
		p.Stop(t)
	}
	wrong := t.TempDir()
	if err := os.CopyFS(filepath.Join(wrong, "copy-pq"), os.DirFS(filepath.Join(one.work, "a", "copy-pq"))); err != nil {
		t.Fatal(err)
	}
	mistaken := testenv.Launch(t, append(other.env("b"), "PQ_DATA="+wrong)...)
	mistaken.AwaitLog(t, "this is a copy of")
	right := testenv.Launch(t, other.env("a")...)
	mistaken.Stop(t)
	right.AwaitReady(t)
	testenv.Await(t, "the store serves", func() bool {
		code, _ := get(t, right.HTTP+"/readyz")
		return code == http.StatusOK
	})
	if got := string(other.ask(t, "pq.jobs.pop.min", "").Data); got != "of "+other.work {
		t.Errorf("popped %q, expected the item of the other store", got)
	}
}

// Two pqd have one name by mistake: both say so, one serves, and nothing is lost.
func TestTwoNodesOfOneName(t *testing.T) {
	t.Parallel()
	s := newStreamStore(t, "64M")
	s.init(t)
	first := testenv.Daemon(t, s.env("a")...)
	s.ask(t, "pq.jobs.push.1", "kept")
	second := testenv.Launch(t, append(s.env("a"), "PQ_DATA="+t.TempDir())...)
	for _, p := range []*testenv.Process{first, second} {
		p.AwaitLog(t, "another process has the name of this member")
	}
	first.Kill(t)
	second.AwaitReady(t)
	if got := string(s.ask(t, "pq.jobs.pop.min", "").Data); got != "kept" {
		t.Errorf("popped %q, expected the item", got)
	}
}
