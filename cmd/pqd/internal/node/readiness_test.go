package node

import (
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

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
