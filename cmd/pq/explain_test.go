package main

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// While nobody serves queues, explain says whether the pqd of a cluster are taking over, and which of them are missing. It fails
// with the exit code of what may be served later.
func TestExplainTakeover(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t)
	nc := s.Connect(t)
	const nobody = ": no bridge is there (503)\nIs pqd running, and is its prefix the same (--prefix)? \"pq doctor\" looks closer.\n"
	const follows, silent = protocol.RoleFollower, protocol.RoleSilent
	for prefix, tc := range map[string]struct {
		members []client.Member // as the first one of them says; none: nobody answers
		want    string          // what explain says behind what it asks for
	}{
		"together": {[]client.Member{{Node: "a", Role: follows}, {Node: "b", Role: follows}}, ": takeover: no pqd is active (503)\n"},
		"away": {
			[]client.Member{{Node: "a", Role: follows}, {Node: "b", Role: silent, Heard: 90}, {Node: "c", Role: silent, Heard: 3600}},
			": takeover: no pqd is active: b was last heard 1m30s ago, c was last heard 1h0m ago; heard: 1 of 3, and with PQ_CLUSTER 2 have to be there (503)\n",
		},
		"ended": {
			[]client.Member{{Node: "a", Role: follows}, {Node: "b", Role: client.RoleActive, Heard: 0.7}, {Node: "c", Role: follows, Heard: 0.2}},
			": takeover: no pqd is active: b was last heard 700ms ago; heard: 2 of 3, and with PQ_CLUSTER 2 have to be there (503)\n",
		},
		"few": {
			[]client.Member{{Node: "a", Role: client.RoleActive}, {Node: "b", Role: silent, Heard: 90}, {Node: "c", Role: silent, Heard: 3600}},
			": no quorum: b was last heard 1m30s ago, c was last heard 1h0m ago; heard: 1 of 3, and with PQ_CLUSTER 2 have to be there (503)\n",
		},
		"one-away": {[]client.Member{{Node: "a", Role: client.RoleActive}, {Node: "b", Role: follows}, {Node: "c", Role: silent, Heard: 90}}, nobody},
		"active":   {[]client.Member{{Node: "a", Role: client.RoleActive}}, nobody},
		"none":     {nil, nobody},
	} {
		if tc.members != nil {
			status, err := json.Marshal(client.Cluster{Node: "a", Members: tc.members})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := nc.Subscribe(prefix+"._sys.cluster.status", func(m *nats.Msg) { _ = m.Respond(status) }); err != nil {
				t.Fatal(err)
			}
		}
		for asks, about := range map[string][]string{"info": {"orders"}, "get": {"orders", "FBYD_AGmMm9rGjYE-gA"}} {
			t.Run(prefix+" "+asks, func(t *testing.T) {
				t.Parallel()
				env := []string{"HOME=" + t.TempDir(), "NATS_URL=" + s.URL(), "NATS_TIMEOUT=" + testenv.Patience().String()}
				code, text := pq(t, env, append([]string{"explain", "--prefix", prefix}, about...)...)
				if want := "pq: " + asks + " orders" + tc.want; code != 4 || text != want {
					t.Errorf("exit code %d, %q; expected 4 and %q", code, text, want)
				}
			})
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}
