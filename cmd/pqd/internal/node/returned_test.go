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
		known     bool
	}{
		"with its old disk":                 {cluster.MemberStatus{Name: "a", Runs: true, HadPart: true}, true, true, true},
		"killed with its old disk":          {cluster.MemberStatus{Name: "a", Runs: true, HadPart: true}, false, true, true},
		"with an empty disk":                {cluster.MemberStatus{Name: "a", Runs: true}, true, false, true},
		"has said nothing yet":              {cluster.MemberStatus{Name: "b", Runs: true, HadPart: true}, true, false, false},
		"ended before it said anything":     {cluster.MemberStatus{Name: "b", Runs: true, HadPart: true}, false, true, true},
		"starts, and was heard long ago":    {cluster.MemberStatus{Name: "a", HadPart: true}, true, false, false},
		"ended long ago with an empty disk": {cluster.MemberStatus{Name: "a"}, false, true, true},
		"ended long ago with its old disk":  {cluster.MemberStatus{Name: "a", HadPart: true}, false, true, true},
	} {
		if back, known := comesBack("a", []cluster.MemberStatus{c.heard}, c.connected); back != c.back || known != c.known {
			t.Errorf("%s: it comes back: %t, that is known: %t, expected %t and %t", name, back, known, c.back, c.known)
		}
	}
}
