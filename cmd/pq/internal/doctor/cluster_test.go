package doctor

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// What doctor says about pqd that keep a store together, and how bad it is.
func TestDoctorOfClusters(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*client.Cluster)
		says   string
		failed bool
	}{
		{"healthy", func(*client.Cluster) {}, "ok    cluster      a is active in epoch 7, 2 followers, the log is 50 % full", false},
		{"silent", func(c *client.Cluster) { c.Members[2].Role, c.Members[2].Heard = protocol.RoleSilent, 90 }, "warn  cluster      c was last heard 1m30s ago", false},
		{"most are silent", func(c *client.Cluster) {
			for i := range c.Members[1:] {
				c.Members[1+i].Role, c.Members[1+i].Heard = protocol.RoleSilent, 90
			}
		}, "warn  cluster      b was last heard 1m30s ago, c was last heard 1m30s ago; heard: 1 of 3, and with PQ_CLUSTER 2 have to be there", false},
		{"lagging", func(c *client.Cluster) { c.Members[1].Lag = 10_001 }, "warn  cluster      b lacks 10,001 entries", false},
		{"a little behind", func(c *client.Cluster) { c.Members[1].Lag = 10_000 }, "ok  ", false},
		{"stopped", func(c *client.Cluster) { c.Members[1].Role, c.Members[1].Reason = protocol.RoleStopped, "damaged" }, "FAIL  cluster      b has stopped: damaged", true},
		{"alone", func(c *client.Cluster) { c.Members = c.Members[:1] }, "warn  cluster      the active pqd hears no other", false},
		{"half upgraded", func(c *client.Cluster) { c.Members[1].Version = "2" }, "warn  cluster      the versions are 1 and 2: finish the upgrade", false},
		{"filling up", func(c *client.Cluster) { c.Log.Bytes = 80 }, "warn  cluster      the log is 80 % full", false},
		{"not full yet", func(c *client.Cluster) { c.Log.Bytes = 79 }, "ok  ", false},
		{"without a limit", func(c *client.Cluster) { c.Log.MaxBytes = 0 }, "the log is 0 % full", false},
	} {
		c := &client.Cluster{
			Node: "a", Log: protocol.ClusterLog{First: 1, Last: 9, Bytes: 50, MaxBytes: 100},
			Members: []client.Member{
				{Node: "a", Role: protocol.RoleActive, Version: "1", Epoch: 7},
				{Node: "b", Role: protocol.RoleFollower, Version: "1", Epoch: 7},
				{Node: "c", Role: protocol.RoleFollower, Version: "1", Epoch: 7},
			},
		}
		tc.change(c)
		var out strings.Builder
		d := &doctor{session: &session.Session{Stdout: &out}}
		d.cluster(c)
		if lines := strings.Count(out.String(), "\n"); lines != 1 || !strings.Contains(out.String(), tc.says) || d.failed != tc.failed || d.err != nil {
			t.Errorf("%s: %q, failed: %v, %v; expected one line that says %q", tc.name, out.String(), d.failed, d.err, tc.says)
		}
	}
}

// What doctor says when no pqd serves: who is missing since when, and what those that are
// there object to.
func TestDoctorOfIdleClusters(t *testing.T) {
	t.Parallel()
	const silent, waits = protocol.RoleSilent, protocol.RoleFollower
	for _, tc := range []struct {
		members []client.Member
		want    string
	}{
		{[]client.Member{{Node: "a", Role: waits}, {Node: "b", Role: waits}}, "none of 2 pqd is active: they wait for each other, which takes some seconds\n"},
		{
			[]client.Member{{Node: "a", Role: waits, Reason: "no log"}, {Node: "b", Role: silent, Heard: 90, Reason: "old"}, {Node: "c", Role: silent, Heard: 3600}},
			"none of 3 pqd is active: b was last heard 1m30s ago, c was last heard 1h0m ago; heard: 1 of 3, and with PQ_CLUSTER 2 have to be there: start those that are away; a says: no log\n",
		},
		{
			[]client.Member{{Node: "a", Role: protocol.RoleActive}, {Node: "b", Role: silent, Heard: 0.3}, {Node: "c", Role: silent, Heard: 0.2}},
			"the active pqd hears too few others: b was last heard 300ms ago, c was last heard 200ms ago; heard: 1 of 3, and with PQ_CLUSTER 2 have to be there: start those that are away\n",
		},
		{[]client.Member{{Node: "a", Role: protocol.RoleActive}, {Node: "b", Role: waits}}, "the active pqd, a, begins or ends to serve: ask again in a moment\n"},
		{[]client.Member{{Node: "a", Role: protocol.RoleStopped, Reason: "damaged"}}, "none of 1 pqd is active: a says: damaged\n"},
	} {
		var out strings.Builder
		d := &doctor{session: &session.Session{Stdout: &out}}
		d.inactive(&client.Cluster{Members: tc.members})
		if want := "FAIL  cluster      " + tc.want; out.String() != want || !d.failed {
			t.Errorf("%q, expected %q", out.String(), want)
		}
	}
}

// Behind a request that failed doctor looks for the cause in the cluster: if nobody answered, whatever the pqd say, and otherwise if too
// few are heard.
func TestDoctorLooksForTheCauseInTheCluster(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t)
	nc := s.Connect(t)
	const silent, follows = protocol.RoleSilent, protocol.RoleFollower
	refused := error(&client.Error{Code: protocol.CodeUnavailable})
	for prefix, tc := range map[string]struct {
		err     error
		members []client.Member // none: nobody answers
		says    string          // "": nothing
	}{
		"none":     {nats.ErrNoResponders, nil, ""},
		"together": {nats.ErrNoResponders, []client.Member{{Node: "a", Role: follows}, {Node: "b", Role: follows}}, "none of 2 pqd is active: they wait"},
		"ended":    {nats.ErrNoResponders, []client.Member{{Node: "a", Role: protocol.RoleActive, Heard: 0.1}, {Node: "b", Role: follows, Heard: 0.1}}, "none of 2 pqd is active: a was last heard 100ms ago"},
		"few":      {refused, []client.Member{{Node: "a", Role: protocol.RoleActive}, {Node: "b", Role: silent}, {Node: "c", Role: silent}}, "the active pqd hears too few others"},
		"enough":   {refused, []client.Member{{Node: "a", Role: protocol.RoleActive}, {Node: "b", Role: follows}, {Node: "c", Role: silent}}, ""},
	} {
		if tc.members != nil {
			body, err := json.Marshal(client.Cluster{Node: "a", Members: tc.members})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := nc.Subscribe(prefix+"._sys.cluster.status", func(m *nats.Msg) { _ = m.Respond(body) }); err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		d := &doctor{session: session.New(t.Context(), nil, strings.NewReader(""), &out, &out)}
		d.session.NC, d.session.Global.Timeout, d.session.Global.Prefix = nc, testenv.Patience(), prefix
		var err error
		if d.client, err = d.session.Connect(); err != nil {
			t.Fatal(err)
		}
		if found := d.idle(tc.err); found != (tc.says != "") || !strings.Contains(out.String(), tc.says) || (out.String() == "") == found {
			t.Errorf("%s: %t, %q, expected %q", prefix, found, out.String(), tc.says)
		}
	}
}
