package node

import (
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
)

// Of the nodes that were replaced only one with its old disk has come back. One with an empty disk waits for a place.
func TestReplacedNodeComesBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		heard     cluster.MemberStatus
		connected bool
		back      bool
	}{
		"with its old disk":                 {cluster.MemberStatus{Name: "a", Runs: true, HadPart: true}, true, true},
		"killed with its old disk":          {cluster.MemberStatus{Name: "a", Runs: true, HadPart: true}, false, true},
		"with an empty disk":                {cluster.MemberStatus{Name: "a", Runs: true}, true, false},
		"has said nothing yet":              {cluster.MemberStatus{Name: "b", Runs: true, HadPart: true}, true, false},
		"ended before it said anything":     {cluster.MemberStatus{Name: "b", Runs: true, HadPart: true}, false, true},
		"starts, and was heard long ago":    {cluster.MemberStatus{Name: "a", HadPart: true}, true, false},
		"ended long ago with an empty disk": {cluster.MemberStatus{Name: "a"}, false, true},
		"ended long ago with its old disk":  {cluster.MemberStatus{Name: "a", HadPart: true}, false, true},
	} {
		if got := comesBack("a", []cluster.MemberStatus{c.heard}, c.connected); got != c.back {
			t.Errorf("%s: it comes back: %t, expected %t", name, got, c.back)
		}
	}
}
