package node

import (
	"errors"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/protocol"
)

// A node that is away is silent in the status from then on, although it was heard a moment ago, and so is one that was active before.
func TestSilentNodesOfStatus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		member cluster.MemberStatus
		want   protocol.Role
	}{
		"it is heard":       {cluster.MemberStatus{Role: cluster.Follower, Runs: true}, protocol.RoleFollower},
		"it is active":      {cluster.MemberStatus{Role: cluster.Active, Epoch: 7, Runs: true}, protocol.RoleActive},
		"it was active":     {cluster.MemberStatus{Role: cluster.Active, Epoch: 6, Runs: true}, protocol.RoleSilent},
		"it is away":        {cluster.MemberStatus{Role: cluster.Active, Epoch: 7, Runs: true, Away: true}, protocol.RoleSilent},
		"it is away longer": {cluster.MemberStatus{Role: cluster.Follower, Away: true}, protocol.RoleSilent},
	} {
		if got := (&view{}).of(cluster.Status{Epoch: 7, Members: []cluster.MemberStatus{c.member}}); got.Members[1].Role != c.want {
			t.Errorf("%s: its role is %s, expected %s", name, got.Members[1].Role, c.want)
		}
	}
}

// A node that hears too few others says so first, and what else it waits for behind it: that may be what an operator has to do.
func TestLoneNodeSaysAll(t *testing.T) {
	t.Parallel()
	few := errors.New("heard: 1 of 3 nodes")
	for _, c := range []struct{ reason, want string }{
		{"", "store: heard: 1 of 3 nodes"}, {"run pqd recover", "store: heard: 1 of 3 nodes; run pqd recover"},
	} {
		if err := alone(cluster.Status{Minority: few, Reason: c.reason}); !errors.Is(err, few) || err.Error() != c.want {
			t.Errorf("%v, expected %q", err, c.want)
		}
	}
}

// A follower is not ready while its copy lacks much, or since its start has not had all that an
// active node had. What a node of an earlier generation had counts for nothing.
func TestFollowerBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status cluster.Status
		says   string // "": it is ready
	}{
		"level":              {cluster.Status{Generation: 2, Entry: 9000, CaughtUp: true, Log: cluster.LogState{Last: 9000}}, ""},
		"a little behind":    {cluster.Status{Generation: 2, Entry: 9000, CaughtUp: true, Log: cluster.LogState{Last: 10000}}, ""},
		"behind the log":     {cluster.Status{Generation: 2, Entry: 9000, CaughtUp: true, Log: cluster.LogState{Last: 10001}}, "lacks 1001 entries"},
		"behind another one": {cluster.Status{Generation: 2, Entry: 9000, CaughtUp: true, Members: []cluster.MemberStatus{{Generation: 2, Entry: 209000}}}, "lacks 200000 entries"},
		"another generation": {cluster.Status{Generation: 2, Entry: 9, CaughtUp: true, Members: []cluster.MemberStatus{{Generation: 1, Entry: 209000}}}, ""},
		"just started":       {cluster.Status{Generation: 2, Entry: 9000}, "has not caught up"},
	} {
		err := behind(c.status)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, expected %q", name, err, c.says)
		}
	}
}
