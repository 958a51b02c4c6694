package broker

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/testenv"
)

// A node that leads the log gives that away before it ends, and is not ready while it does
// not replicate the log.
func TestLogReplica(t *testing.T) {
	t.Parallel()
	c := testenv.NewCluster(t, func(o *server.Options) {
		if err := addLogAccount(o); err != nil {
			t.Fatal(err)
		}
	})
	who, err := newIdentities()
	if err != nil {
		t.Fatal(err)
	}
	own, err := loginAs(who.log)
	if err != nil {
		t.Fatal(err)
	}
	var replicas []LogReplica
	for _, s := range c.Servers {
		nc, err := nats.Connect("", nats.InProcessServer(s.Server()), own, nats.Timeout(testenv.Patience()))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		replicas = append(replicas, LogReplica{s.Server(), nc})
	}
	js, err := jetstream.New(replicas[0].Log)
	if err != nil {
		t.Fatal(err)
	}
	testenv.AwaitAnswer(t, "there is a stream", func(ctx context.Context) bool { // the leader has found all servers then
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "LOG", Subjects: []string{"log"}, Replicas: len(replicas)})
		return err == nil
	})
	leader := func() (found int) {
		testenv.Await(t, "the log has a leader", func() bool {
			for i, r := range replicas {
				if r.Server.JetStreamIsStreamLeader(logAccount, "LOG") {
					found = i
					return true
				}
			}
			return false
		})
		return found
	}
	await := func(what string, is func(LogReplica) bool) {
		testenv.Await(t, what, func() bool {
			for _, r := range replicas {
				if !is(r) {
					return false
				}
			}
			return true
		})
	}
	await("all nodes replicate the log", func(r LogReplica) bool { return r.Ready() == nil })
	await("no node has an entry", func(r LogReplica) bool {
		return r.Missing("LOG", 0) == nil && r.Missing("LOG", 1) != nil && r.Missing("OTHER", 0) != nil
	})
	// The id has the entry stay one, and the first, when an answer comes too late.
	testenv.AwaitAnswer(t, "the log has an entry", func(ctx context.Context) bool { // its leader may have no subscription yet
		_, err := js.Publish(ctx, "log", nil, jetstream.WithMsgID("entry"))
		return err == nil
	})
	await("all nodes have the entry", func(r LogReplica) bool { return r.Missing("LOG", 1) == nil })
	var names []string
	for _, r := range replicas {
		names = append(names, r.Server.Name())
	}

	move := func(r LogReplica) error {
		ctx, cancel := context.WithTimeout(t.Context(), testenv.Times(10*time.Second)) // an election takes some
		defer cancel()
		return r.MoveLeader(ctx, names)
	}
	// Servers may elect another leader at any time.
	testenv.Await(t, "a node that leads the log gives that away", func() bool {
		first := leader()
		for _, i := range []int{(first + 1) % len(replicas), first} {
			if err := move(replicas[i]); err != nil {
				t.Log(err) // the leader may not know yet what the others have
				return false
			}
		}
		return leader() != first
	})

	ended := leader()
	cut := (ended + 1) % len(replicas)
	c.Isolate(cut)
	testenv.Await(t, "a node that is cut off is not ready", func() bool { return replicas[cut].Ready() != nil })
	for i, r := range replicas {
		if err := r.Failed(); err != nil {
			t.Errorf("the log of node %d has failed: %v", i, err)
		}
	}
	if err := replicas[ended].Server.ShutdownJetStream(); err != nil { // as a full disk does
		t.Fatal(err)
	}
	if replicas[ended].Failed() == nil {
		t.Error("a server that has ended JetStream replicates the log")
	}
}

// The next leader is the server that has most of the log.
func TestFurthestReplica(t *testing.T) {
	t.Parallel()
	a, b := &server.PeerInfo{Name: "a", Current: true, Lag: 7}, &server.PeerInfo{Name: "b", Current: true, Lag: 3}
	for _, tc := range []struct {
		replicas []*server.PeerInfo
		furthest string
	}{
		{nil, ""},
		{[]*server.PeerInfo{a, b}, "b"},
		{[]*server.PeerInfo{b, a}, "b"},
		{[]*server.PeerInfo{a, {Name: "c", Current: true, Offline: true}}, "a"},
		{[]*server.PeerInfo{{Name: "c"}, a}, "a"},
		{[]*server.PeerInfo{{Name: "c"}}, ""},
	} {
		if found := furthest(tc.replicas, []string{"c"}); found == "a" || found == "b" {
			t.Errorf("%v: %q, expected none but c", tc.replicas, found)
		}
		if found := furthest(tc.replicas, []string{"a", "b", "c"}); found != tc.furthest {
			t.Errorf("%v: %q, expected %q", tc.replicas, found, tc.furthest)
		}
	}
}
