package cluster_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// A request that is on its way between two NATS servers when a hand-over begins is answered:
// the pqd that hands over is subscribed until the other one serves.
func TestRequestOnItsWayDuringHandOver(t *testing.T) {
	t.Parallel()
	x := newRouteFaults(t, 2)
	servers, nodes := x.servers, x.nodes
	const asks = 2
	nc := servers.Servers[asks].Connect(t)
	push := func(body string) <-chan *nats.Msg {
		t.Helper()
		inbox, answers := nc.NewInbox(), make(chan *nats.Msg, 1)
		_, err := nc.ChanSubscribe(inbox, answers)
		if err == nil {
			err = nc.PublishMsg(&nats.Msg{Subject: "pq.jobs.push.1", Reply: inbox, Data: []byte(body)})
		}
		if err == nil {
			err = nc.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		return answers
	}
	// The server of the client leads nothing, so that its silence stops nothing.
	testenv.Await(t, "another server leads the log", func() bool {
		if servers.StreamLeader(t, stream) == asks {
			x.stepDown(t, asks, 0)
		}
		return servers.StreamLeader(t, stream) != asks
	})
	var active *testenv.Process // a pqd may lose its place while the leader changes, and behind it
	testenv.Await(t, "the active pqd is known, and stays", func() bool {
		active = nodes.Active(t)
		return len((<-push("x")).Header) == 0 && nodes.Active(t) == active
	})

	release := servers.Hold(asks, slices.Index(nodes.All, active))
	answers := push("on its way")
	successor := nodes.All[1-slices.Index(nodes.All, active)]
	defer successor.Resume(t)
	leads := servers.Servers[slices.Index(nodes.All, active)].Connect(t)
	testenv.Await(t, "the active pqd hands over to one that it has just heard, and that is silent now", func() bool {
		m, err := leads.Request("pq._sys.cluster.status", nil, testenv.Attempt())
		var c protocol.Cluster
		if err != nil || json.Unmarshal(m.Data, &c) != nil || !slices.ContainsFunc(c.Members, func(m protocol.Member) bool {
			return m.Role == protocol.RoleFollower && m.Heard < 0.5
		}) {
			return false
		}
		successor.Pause(t)
		m, err = leads.Request("pq._sys.cluster.step-down", nil, testenv.Attempt())
		if errors.Is(err, nats.ErrNoResponders) || err == nil && len(m.Header) > 0 { // it has no successor
			successor.Resume(t)
			return false
		}
		if err != nil {
			t.Fatal(err) // whether it has handed over is not known
		}
		return true
	})
	release() // neither of them serves now
	select {
	case m := <-answers:
		if !strings.HasPrefix(m.Header.Get("Nats-Service-Error"), "another pqd takes over the store") {
			t.Errorf("the request on its way got %v, expected a refusal", m.Header)
		}
	case <-testenv.Late():
		t.Error("the request on its way got no answer")
	}
	successor.Resume(t)
	nodes.Active(t, active)
}
