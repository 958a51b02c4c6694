package main

import "testing"

// A node's part of a group is spared only while another node leads it and each other one
// has all that is committed: with three nodes one, with five all three besides the leader.
func TestWhatOthersCanSpare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cluster string // the first node is this one
		leader  string
		has     []replica
		want    bool
	}{
		"both others have all":      {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "b", []replica{{"a", false}, {"c", true}}, true},
		"one lags":                  {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "b", []replica{{"a", true}, {"c", false}}, false},
		"one is not known":          {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "b", []replica{{"a", true}}, false},
		"no leader":                 {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "", []replica{{"b", true}, {"c", true}}, false},
		"this one leads":            {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3", "a", []replica{{"b", true}, {"c", true}}, false},
		"all of five":               {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3,d=1.1.1.4,e=1.1.1.5", "e", []replica{{"b", true}, {"c", true}, {"d", true}}, true},
		"a majority of five is not": {"a=1.1.1.1,b=1.1.1.2,c=1.1.1.3,d=1.1.1.4,e=1.1.1.5", "e", []replica{{"b", true}, {"c", true}}, false},
	} {
		s := settings{Node: "a"}
		if err := s.Cluster.Decode(c.cluster); err != nil {
			t.Fatal(err)
		}
		if got := s.spared(c.leader, c.has); got != c.want {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
}
