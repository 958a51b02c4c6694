package cluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// recoverBeside runs pqd recover until it has the expected outcome: it refuses as long as
// pqd does not see yet what has happened.
func recoverBeside(t *testing.T, p *testenv.Process, succeeds bool, says string, args ...string) {
	t.Helper()
	testenv.Await(t, "pqd recover says "+says, func() bool {
		code, stdout, stderr := p.RunBeside(t, append([]string{"recover"}, args...)...)
		t.Logf("pqd recover %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
		return (code == 0) == succeeds && strings.Contains(stdout+stderr, says)
	})
}

// The stream is deleted: both pqd stop serving, say so, and serve no empty store in its place
// when somebody makes the stream again. pqd recover goes on with all items in a new stream.
// What a pqd of the old stream still had to write never counts.
func TestRecoverStream(t *testing.T) {
	t.Parallel()
	s := pqd.NewStreamStore(t, "64M")
	nodes, active, follower := s.Pair(t)
	for _, body := range []string{"first", "second"} {
		if reply := s.Ask(t, "pq.jobs.push.1", body); len(reply.Header) > 0 {
			t.Fatalf("push: %+v", reply.Header)
		}
	}
	testenv.Await(t, "the follower has all", func() bool {
		c := s.Status(t)
		return len(c.Members) == 2 && c.Members[0].Entry >= 3 && c.Members[0].Entry == c.Members[1].Entry
	})
	recoverBeside(t, follower, false, "there is nothing to recover")
	api, err := js.New(s.Nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := api.DeleteStream(t.Context(), "PQ_pq_1"); err != nil {
		t.Fatal(err)
	}
	for _, p := range nodes.All {
		testenv.Await(t, "readyz says what to do", func() bool { return strings.Contains(p.Page(t, "/readyz"), "pqd recover") })
	}
	if code, stdout, stderr := testenv.Run(t, s.Env("c"), "recover"); code != 1 || !strings.Contains(stderr, "no pqd with PQ_DATA=") {
		t.Errorf("pqd recover without a pqd: %d %s%s", code, stdout, stderr)
	}
	active.Pause(t)
	recoverBeside(t, follower, false, "--without <node>", "--yes")
	active.Resume(t)
	recoverBeside(t, follower, false, "lost: nothing that any node knows of")
	recoverBeside(t, follower, true, "generation 2 has begun", "--yes")
	nodes.Active(t)
	for _, want := range []string{"first", "second"} {
		if got := string(s.Ask(t, "pq.jobs.pop.min", "").Data); got != want {
			t.Errorf("popped %q, expected %q", got, want)
		}
	}
	if got := s.Ask(t, "pq.jobs.pop.min", "").Header.Get("Status"); got != "404" {
		t.Errorf("the queue has more than was pushed: %s", got)
	}
	for _, name := range []string{"PQ_pq_1", "PQ_pq_2"} {
		if _, err := api.Stream(t.Context(), name); err != nil {
			t.Errorf("stream %s: %v", name, err)
		}
	}
	for _, p := range nodes.All {
		p.Stop(t)
		p.Start(t)
	}
	s.Ask(t, "pq.jobs.push.1", "third")
}

// A backup of a node's copy is checked, is refused as an embedded store, gives its items to
// pqd salvage, and begins the store anew beside NATS servers that have no log. An embedded
// store is refused as a copy.
func TestBackupOfCopy(t *testing.T) {
	nightly.Only(t, "kv/local has backups")
	t.Parallel()
	s := pqd.NewStreamStore(t, "64M")
	s.Init(t)
	p := testenv.Daemon(t, s.Env("a")...)
	s.Ask(t, "pq.jobs.push.1", "kept")
	dir := t.TempDir()
	to := filepath.Join(dir, "copy-pq")
	succeeds := func(says string, env []string, args ...string) {
		t.Helper()
		if code, stdout, stderr := testenv.Run(t, env, args...); code != 0 || !strings.Contains(stdout, says) {
			t.Errorf("pqd %s: exit code %d, %s%s, expected %q", args, code, stdout, stderr, says)
		}
	}
	refused := func(says string, env []string, args ...string) {
		t.Helper()
		if code, stdout, stderr := testenv.Run(t, env, args...); code != 1 || !strings.Contains(stderr, says) {
			t.Errorf("pqd %s: exit code %d, %s%s, expected %q", args, code, stdout, stderr, says)
		}
	}
	succeeds("is copied to "+to, s.Env("a"), "backup", to)
	refused("in use", s.Env("a"), "check")
	if _, _, stderr := testenv.Run(t, s.Env("a"), "backup", to); strings.Count(stderr, "pqd: ") != 1 || !strings.Contains(stderr, "no backup was made") {
		t.Errorf("a second backup in one place: %s", stderr)
	}
	s.Ask(t, "pq.jobs.push.1", "after the backup")
	p.Stop(t)
	succeeds("has no damage", s.Env("a"), "check")

	other := pqd.NewStreamStore(t, "64M")
	restored := append(other.Env("a"), "PQ_DATA="+dir)
	succeeds("has no damage", restored, "check")
	embedded := []string{"PQ_STORE=local:" + to, "PQ_LISTEN=127.0.0.1:0", "PQ_HTTP=127.0.0.1:0"}
	succeeds("jobs: 1 items", embedded, "salvage", filepath.Join(t.TempDir(), "items"))
	refused("this is a node's copy", embedded)
	next := testenv.Launch(t, restored...)
	recoverBeside(t, next, true, "generation 2 has begun", "--yes")
	next.AwaitReady(t)
	if got := string(other.Ask(t, "pq.jobs.pop.min", "").Data); got != "kept" {
		t.Errorf("popped %q, expected the item", got)
	}

	wrong := t.TempDir()
	single := testenv.Daemon(t, "PQ_STORE=local:"+filepath.Join(wrong, "copy-pq"))
	alone := single.Connect(t)
	pqd.Push(t, alone, "jobs", 1, "elsewhere")
	carry(t, alone, "jobs", other.Nc, "moved")
	carry(t, other.Nc, "moved", alone, "back")
	if m, err := alone.Request("pq.back.pop.min", nil, testenv.Patience()); err != nil || string(m.Data) != "elsewhere" {
		t.Errorf("popped %+v, %v, expected the item that was there and back", m, err)
	}
	single.Stop(t)
	refused("this is a store of one process", append(other.Env("b"), "PQ_DATA="+wrong, "PQ_HTTP=127.0.0.1:0"))
}

// carry brings the items of a queue to a queue of another store, as pq export and pq import
// do.
func carry(t *testing.T, from *nats.Conn, queue string, to *nats.Conn, as string) {
	t.Helper()
	for _, id := range pqd.Listed(t, from, queue) {
		item, err := from.Request("pq."+queue+".get."+id, nil, testenv.Patience())
		if err != nil {
			t.Fatal(err)
		}
		reply, err := to.RequestMsg(&nats.Msg{Subject: "pq." + as + ".import", Header: item.Header, Data: item.Data}, testenv.Patience())
		if err != nil || !testenv.IsAck(reply) {
			t.Fatalf("import: %+v, %v", reply, err)
		}
	}
}

// Two of three nodes lose their disks. The third one keeps its copy and gives up the files
// of its NATS server, so that the three servers begin anew. No node makes an empty store;
// pqd recover goes on with the copy.
func TestTwoDisksLost(t *testing.T) {
	t.Parallel()
	if *pqd.Ops == 0 {
		t.Skip("no -pq.ops: three processes start twice, and NATS elects leaders")
	}
	nodes := testenv.NewNodes(t)
	active := nodes.Active(t)
	pqd.PushOnce(t, active, "jobs", "kept")
	for _, p := range nodes.All {
		if p != active {
			p.Kill(t)
		}
	}
	active.Terminate(t) // so its copy is on the disk
	active.AwaitEnd(t)
	for _, p := range nodes.All {
		lost := filepath.Dir(p.Dir)
		if p == active {
			lost = filepath.Join(lost, "nats")
		}
		if err := os.RemoveAll(lost); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range nodes.All {
		p.Begin(t)
	}
	recoverBeside(t, active, true, "generation 2 has begun", "--yes")
	for _, p := range nodes.All {
		p.AwaitReady(t)
	}
	next := nodes.Active(t)
	nc := next.Connect(t)
	pqd.PopOnce(t, nc, "jobs", "kept")
	// The cluster is whole again: it survives the loss of the node that had the only copy.
	pqd.PushOnce(t, next, "jobs", "after")
	survivors := slices.DeleteFunc(slices.Clone(nodes.All), func(p *testenv.Process) bool { return p == active })
	active.Kill(t)
	serving := nodes.Active(t, active)
	if !slices.Contains(survivors, serving) {
		t.Fatal("no survivor serves")
	}
	nc = serving.Connect(t)
	pqd.PopOnce(t, nc, "jobs", "after")
	active.Start(t)
}

// One node loses its disk, and then all lose their power at once.
func TestDiskAndPowerLost(t *testing.T) {
	t.Parallel()
	if *pqd.Ops == 0 {
		t.Skip("no -pq.ops: three processes start twice, and NATS elects leaders")
	}
	nodes := testenv.NewNodes(t)
	replaced := nodes.Active(t)
	pqd.PushOnce(t, replaced, "jobs", "before")
	replaced.Kill(t)
	if err := os.RemoveAll(filepath.Dir(replaced.Dir)); err != nil {
		t.Fatal(err)
	}
	nodes.Active(t, replaced)
	replaced.Start(t)
	pqd.PushOnce(t, replaced, "jobs", "between")
	for _, p := range nodes.All {
		p.Kill(t)
	}
	for _, p := range nodes.All {
		p.Begin(t)
	}
	for _, p := range nodes.All {
		p.AwaitReady(t)
	}
	nc := nodes.Active(t).Connect(t)
	for _, want := range []string{"before", "between"} {
		pqd.PopOnce(t, nc, "jobs", want)
	}
}
