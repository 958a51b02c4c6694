package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

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
	s := newStreamStore(t, "64M")
	nodes, active, follower := s.pair(t)
	for _, body := range []string{"first", "second"} {
		if reply := s.ask(t, "pq.jobs.push.1", body); len(reply.Header) > 0 {
			t.Fatalf("push: %+v", reply.Header)
		}
	}
	testenv.Await(t, "the follower has all", func() bool {
		c := s.status(t)
		return len(c.Members) == 2 && c.Members[0].Entry >= 3 && c.Members[0].Entry == c.Members[1].Entry
	})
	recoverBeside(t, follower, false, "there is nothing to recover")
	api, err := js.New(s.nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := api.DeleteStream(t.Context(), "PQ_pq_1"); err != nil {
		t.Fatal(err)
	}
	for _, p := range nodes.All {
		testenv.Await(t, "readyz says what to do", func() bool { return strings.Contains(p.Page(t, "/readyz"), "pqd recover") })
	}
	if code, stdout, stderr := testenv.Run(t, s.env("c"), "recover"); code != 1 || !strings.Contains(stderr, "no pqd with PQ_DATA=") {
		t.Errorf("pqd recover without a pqd: %d %s%s", code, stdout, stderr)
	}
	active.Pause(t)
	recoverBeside(t, follower, false, "--without <node>", "--yes")
	active.Resume(t)
	recoverBeside(t, follower, false, "lost: nothing that any node knows of")
	recoverBeside(t, follower, true, "generation 2 has begun", "--yes")
	nodes.Active(t)
	for _, want := range []string{"first", "second"} {
		if got := string(s.ask(t, "pq.jobs.pop.min", "").Data); got != want {
			t.Errorf("popped %q, expected %q", got, want)
		}
	}
	if got := s.ask(t, "pq.jobs.pop.min", "").Header.Get("Status"); got != "404" {
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
	s.ask(t, "pq.jobs.push.1", "third")
}

// Two of three nodes lose their disks. The third one keeps its copy and gives up the files
// of its NATS server, so that the three servers begin anew. No node makes an empty store;
// pqd recover goes on with the copy.
func TestTwoDisksLost(t *testing.T) {
	t.Parallel()
	if *flagOps == 0 {
		t.Skip("no -pq.ops: three processes start twice, and NATS elects leaders")
	}
	nodes := testenv.NewNodes(t)
	active := nodes.Active(t)
	pushOnce(t, active, "kept")
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
	testenv.Await(t, "the item is there", func() bool {
		m, err := nc.Request("pq.jobs.pop.min", nil, patience)
		return err == nil && string(m.Data) == "kept"
	})
	// The cluster is whole again: it survives the loss of the node that had the only copy.
	pushOnce(t, next, "after")
	survivors := slices.DeleteFunc(slices.Clone(nodes.All), func(p *testenv.Process) bool { return p == active })
	active.Kill(t)
	serving := nodes.Active(t, active)
	if !slices.Contains(survivors, serving) {
		t.Fatal("no survivor serves")
	}
	nc = serving.Connect(t)
	testenv.Await(t, "the second item is there", func() bool {
		m, err := nc.Request("pq.jobs.pop.min", nil, patience)
		return err == nil && string(m.Data) == "after"
	})
	active.Start(t)
}

// pushOnce pushes one item, however often it has to ask.
func pushOnce(t *testing.T, p *testenv.Process, body string) {
	t.Helper()
	nc := p.Connect(t)
	m := nats.NewMsg("pq.jobs.push.1")
	m.Data = []byte(body)
	m.Header.Set("Nats-Msg-Id", body)
	testenv.Await(t, body+" is pushed", func() bool {
		reply, err := nc.RequestMsg(m, patience)
		return err == nil && reply.Header.Get("Nats-Service-Error-Code") == ""
	})
}
