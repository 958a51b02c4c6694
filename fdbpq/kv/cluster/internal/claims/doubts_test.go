package claims

import (
	"strings"
	"testing"
)

// Members whose disks went back, or may have, make no majority. They are in doubt until a member that is away, and may
// have what they lack, runs.
func TestDoubts(t *testing.T) {
	t.Parallel()
	lives := &Claim{Life: 2, ID: "now", Count: 5, Lives: true}
	anew := &Claim{Life: 2, ID: "now", Count: 5}
	witnessed := &Claim{Life: 2, ID: "now", Count: 5, Witnesses: []string{"b"}}
	more := map[string]Claim{"a": {Life: 2, ID: "now", Count: 6, Entry: 9}}
	less := map[string]Claim{"a": {Life: 2, ID: "now", Count: 4}}
	another := map[string]Claim{"a": {Life: 2, ID: "other", Count: 1, Entry: 9}}
	later := map[string]Claim{"a": {Life: 3, ID: "later", Count: 1, Entry: 9}}
	for name, c := range map[string]struct {
		run     map[string]Said
		says    string // "": nothing is in doubt
		missing string
	}{
		"all began a life":                    {map[string]Said{"a": {Claim: lives}, "b": {Claim: lives}, "c": {Claim: lives}}, "", ""},
		"two of them":                         {map[string]Said{"a": {Claim: lives}, "b": {Claim: lives}}, "", ""},
		"one of them":                         {map[string]Said{"a": {Claim: lives}}, "waiting for more nodes", ""},
		"a version without claims":            {map[string]Said{"a": {Claim: lives}, "b": {}}, "", ""},
		"one started anew":                    {map[string]Said{"a": {Claim: anew}, "b": {Claim: lives}}, "node a has started anew", "c"},
		"all started anew":                    {map[string]Said{"a": {Claim: anew}, "b": {Claim: anew}, "c": {Claim: anew}}, "", ""},
		"with a witness":                      {map[string]Said{"a": {Claim: witnessed}, "b": {Claim: lives, Knows: less}}, "", ""},
		"with a witness that knows nothing":   {map[string]Said{"a": {Claim: witnessed}, "b": {Claim: lives}}, "node a has started anew", "c"},
		"with a witness that is away":         {map[string]Said{"a": {Claim: witnessed}, "c": {Claim: lives, Knows: less}}, "node a has started anew", "b"},
		"it had more":                         {map[string]Said{"a": {Claim: witnessed}, "b": {Claim: lives, Knows: more}}, "the disk of node a has gone back", "c"},
		"it had another life":                 {map[string]Said{"a": {Claim: anew}, "b": {Claim: lives, Knows: another}}, "the disk of node a has gone back", "c"},
		"it had a later life":                 {map[string]Said{"a": {Claim: anew}, "b": {Claim: lives, Knows: later}}, "the disk of node a has gone back", "c"},
		"it has begun a life since":           {map[string]Said{"a": {Claim: lives}, "b": {Claim: lives, Knows: another}}, "", ""},
		"one of three went back":              {map[string]Said{"a": {Claim: anew}, "b": {Claim: anew, Knows: more}, "c": {Claim: anew}}, "", ""},
		"one of three went back, one anew":    {map[string]Said{"a": {Claim: anew}, "b": {Claim: lives, Knows: more}, "c": {Claim: anew}}, "", ""},
		"two of three went back":              {map[string]Said{"a": {Claim: anew}, "b": {Claim: anew}, "c": {Claim: lives, Knows: map[string]Claim{"a": more["a"], "b": more["a"]}}}, "the disk of node a has gone back", ""},
		"its own memory says nothing of it":   {map[string]Said{"a": {Claim: lives, Knows: more}, "b": {Claim: lives}}, "", ""},
		"strangers make no majority of three": {map[string]Said{"x": {Claim: lives}, "y": {Claim: lives}}, "waiting for more nodes", ""},
	} {
		why, missing := Doubts([]string{"a", "b", "c"}, c.run)
		if (why == "") != (c.says == "") || !strings.Contains(why, c.says) || missing != c.missing {
			t.Errorf("%s: %q, missing %q, expected %q, missing %q", name, why, missing, c.says, c.missing)
		}
	}
}
