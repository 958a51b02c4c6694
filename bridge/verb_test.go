package bridge

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/subjects"
)

// kindsOf has the kinds of requests with lines of their own.
var kindsOf = map[string]kind{
	"*pushes.push": kindPush, "*pushes.importing": kindImport, "*pops.pop": kindPop, "*pops.peek": kindPeek, "*settles.Settlement": kindSettlement, "*edits.Bulk": kindBulk,
	"*results.result": kindResult,
}

// Each verb of the subjects has one entry in the table of verbs, except events, which are
// published only.
func TestVerbs(t *testing.T) {
	t.Parallel()
	entries := make(map[subjects.Verb]int)
	for i, v := range verbs {
		if v.Index != i || verbNamed(v.Name) != v {
			t.Errorf("entry %d: %+v", i, v)
		}
		for _, s := range v.subjects {
			entries[s]++
		}
	}
	for s := subjects.Push; s < subjects.Verbs; s++ {
		if s == subjects.Event {
			if verbOf(s) != verbNone {
				t.Errorf("%s is asked for", s)
			}
			continue
		}
		if entries[s] != 1 || verbOf(s) == verbNone {
			t.Errorf("%s has %d entries, expected one", s, entries[s])
		}
		r := newWork(verbOf(s), subjects.Subject{Verb: s}, &nats.Msg{})
		if _, is := r.(*desk.Unservable); is || r.Head().Work != r || r.Head().Verb != &verbOf(s).Verb {
			t.Errorf("%s makes %T", s, r)
		}
		want, named := kindsOf[fmt.Sprintf("%T", r)]
		if !named {
			want = -1
			switch r.(type) {
			case reads.Query:
				want = kindQuery
			case desk.Change:
				want = kindChange
			}
		}
		if got := verbOf(s).kindOf(s); got != want {
			t.Errorf("%s makes %T, and goes to the workers of kind %d, expected %d", s, r, got, want)
		}
	}
	if r := newWork(verbNone, subjects.Subject{}, &nats.Msg{}); r.Read(nil) == nil {
		t.Error("what is no verb can be asked for")
	}
	if n := len(endpoints()); n != len(verbs)-1 || endpoints()[n-1] == verbNone {
		t.Errorf("discovery shows %d verbs", n)
	}
}
