package broker

import (
	"testing"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// A node's part of a group is spared only while another node leads it and each other one
// has all that is committed: with three nodes one, with five all three besides the leader.
func TestWhatOthersCanSpare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cluster string // the first node is this one
		leader  string
		has     []Replica
		want    bool
	}{
		"both others have all":      {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "b", []Replica{{"a", false}, {"c", true}}, true},
		"one lags":                  {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "b", []Replica{{"a", true}, {"c", false}}, false},
		"one is not known":          {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "b", []Replica{{"a", true}}, false},
		"no leader":                 {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "", []Replica{{"b", true}, {"c", true}}, false},
		"this one leads":            {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "a", []Replica{{"b", true}, {"c", true}}, false},
		"all of five":               {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3,d=1.1.1.4,e=1.1.1.5", "e", []Replica{{"b", true}, {"c", true}, {"d", true}}, true},
		"a majority of five is not": {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3,d=1.1.1.4,e=1.1.1.5", "e", []Replica{{"b", true}, {"c", true}}, false},
	} {
		s := settings.Settings{Node: "a"}
		if err := s.Cluster.Decode(c.cluster); err != nil {
			t.Fatal(err)
		}
		if got := Spared(&s, c.leader, c.has); got != c.want {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
}
