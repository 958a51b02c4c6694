package claims

import (
	"reflect"
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

// A claim has one count more each time, once its process has begun the life. Witnesses are the running members that
// know the life.
func TestNextClaim(t *testing.T) {
	t.Parallel()
	own := Claim{Life: 2, ID: "x", Count: 7, Entry: 3, Lives: true, Witnesses: []string{"b"}}
	earlier := own
	earlier.Lives = false
	with := func(witnesses ...string) Claim {
		return Claim{Life: 2, ID: "x", Count: 8, Entry: 4, Lives: true, Witnesses: witnesses}
	}
	knows := func(member string) Word {
		return Word{Member: member, Runs: true, HasPart: true, Remembers: Claim{Life: 2, ID: "x"}}
	}
	for name, c := range map[string]struct {
		own    Claim
		others []Word
		life   string
		want   Claim
		urgent bool
	}{
		"nothing is new":           {own: own, others: []Word{knows("b")}, want: with("b")},
		"one more knows it":        {own: own, others: []Word{knows("c"), knows("b")}, want: with("b", "c"), urgent: true},
		"one knows another life":   {own: own, others: []Word{{Member: "b", Runs: true, HasPart: true, Remembers: Claim{Life: 1, ID: "y"}}}, want: with(), urgent: true},
		"alone":                    {own: own, others: []Word{{Member: "b", HasPart: true}}, want: with("b")},
		"of an earlier process":    {own: earlier, others: []Word{knows("b"), knows("c")}, want: earlier},
		"its witness is away":      {own: earlier, others: []Word{knows("c")}, want: Claim{Life: 2, ID: "x", Count: 7, Entry: 3, Witnesses: []string{}}, urgent: true},
		"a life begins":            {own: earlier, others: []Word{knows("b")}, life: "z", want: Claim{Life: 3, ID: "z", Count: 1, Entry: 4, Lives: true}, urgent: true},
		"a life begins, of a disk": {others: []Word{{Member: "b", Remembers: Claim{Life: 9, ID: "lost"}}}, life: "z", want: Claim{Life: 10, ID: "z", Count: 1, Entry: 4, Lives: true}, urgent: true},
	} {
		next, urgent := Ledger{Own: c.own}.Next(c.others, c.life, 4)
		if !reflect.DeepEqual(next.Own, c.want) || urgent != c.urgent {
			t.Errorf("%s: %+v, urgent %v, expected %+v, urgent %v", name, next.Own, urgent, c.want, c.urgent)
		}
	}
}

// A ledger remembers the furthest claim of a disk, and does not forget it for a smaller one.
func TestRememberedClaims(t *testing.T) {
	t.Parallel()
	has := Claim{Life: 2, ID: "x", Count: 7, Entry: 3}
	for name, c := range map[string]struct {
		now    Claim
		want   Claim
		urgent bool
	}{
		"more":            {now: Claim{Life: 2, ID: "x", Count: 8, Entry: 4, Lives: true, Witnesses: []string{"a"}}, want: Claim{Life: 2, ID: "x", Count: 8, Entry: 4}},
		"less":            {now: Claim{Life: 2, ID: "x", Count: 6, Entry: 3}, want: has},
		"an earlier life": {now: Claim{Life: 1, ID: "w", Count: 9, Entry: 9}, want: has},
		"another life":    {now: Claim{Life: 2, ID: "y", Count: 9, Entry: 9}, want: has},
		"a new life":      {now: Claim{Life: 1, ID: "y", Count: 1, Entry: 3, Lives: true}, want: Claim{Life: 1, ID: "y", Count: 1, Entry: 3}, urgent: true},
		"no life":         {now: Claim{}, want: has},
	} {
		before := Ledger{Others: map[string]Claim{"b": has}}
		next, urgent := before.Next([]Word{{Member: "b", Runs: true, HasPart: true, Claim: &c.now}}, "", 1)
		if got := next.Others["b"]; !reflect.DeepEqual(got, c.want) || urgent != c.urgent {
			t.Errorf("%s: remembers %+v, urgent %v, expected %+v, urgent %v", name, got, urgent, c.want, c.urgent)
		}
		if !reflect.DeepEqual(before.Others["b"], has) {
			t.Errorf("%s: the ledger before has changed", name)
		}
	}
}
