package versions_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The judge finds what is wrong in a journal, and nothing in one that can be.
func TestJudge(t *testing.T) {
	t.Parallel()
	at := func(call, answer int) span {
		return span{time.Duration(call) * time.Second, time.Duration(answer) * time.Second}
	}
	pushed := func(name string, s span) *item { return &item{name: name, queue: "jobs", pushed: s, push: certain} }
	popped := func(it *item, s span) *item {
		it.handouts = append(it.handouts, handout{span: s, id: it.name})
		it.ends = append(it.ends, event{s, "popped", certain})
		return it
	}
	leased := func(it *item, h handout) *item {
		h.id, h.ack, h.lease, h.counted = it.name, "ack", time.Second, true
		it.handouts = append(it.handouts, h)
		return it
	}
	unique := func(it *item) *item {
		it.unique = "value"
		return it
	}
	untilLeased := func(it *item) *item {
		it.untilLeased = true
		return it
	}
	duplicate := func(it *item) *item {
		it.push, it.duplicate = never, true
		return it
	}
	delayed := pushed("a", at(1, 2))
	delayed.delay = 10 * time.Second
	failed := func(shown int64) *item {
		it := pushed("a", at(1, 2))
		it.failures = []event{{at(3, 4), "-NAK", certain}, {at(3, 4), "-NAK", possible}}
		return popped(leased(it, handout{span: at(5, 6), failures: shown}), at(7, 8))
	}
	dead := pushed("a", at(1, 2))
	dead.handouts = []handout{{span: at(3, 4), dead: "max_deliveries"}}
	dead.ends = []event{{at(3, 4), "popped", certain}}
	named := pushed("a", at(1, 2))
	named.handouts, named.ends = []handout{{span: at(3, 4), dead: "it is wrong"}}, dead.ends
	old := pushed("a", at(1, 2))
	old.ttl, old.handouts, old.ends = time.Minute, []handout{{span: at(3, 4), dead: "expired"}}, dead.ends
	for _, test := range []struct {
		wrong  string // "": nothing is
		items  []*item
		pauses []pause
	}{
		{"", []*item{popped(pushed("a", at(1, 2)), at(3, 4))}, nil},
		{"it is lost", []*item{pushed("a", at(1, 2))}, nil},
		{"it is gone twice", []*item{popped(popped(pushed("a", at(1, 2)), at(3, 4)), at(3, 5))}, nil},
		{"came out again", []*item{leased(popped(pushed("a", at(1, 2)), at(3, 4)), handout{span: at(5, 6)})}, nil},
		{"its push was refused, and it came out", []*item{popped(duplicate(pushed("a", at(1, 2))), at(3, 4))}, nil},
		{"its delay", []*item{popped(delayed, at(3, 4))}, nil},
		{"while its queue was paused", []*item{popped(pushed("a", at(1, 2)), at(4, 5))}, []pause{{"jobs", at(3, 6)}}},
		{"", []*item{popped(pushed("a", at(1, 2)), at(4, 7))}, []pause{{"jobs", at(3, 6)}, {"others", at(3, 9)}}},
		{"its fence was 2", []*item{popped(leased(leased(pushed("a", at(1, 2)), handout{span: at(3, 4), fence: 2}), handout{span: at(5, 6), fence: 2, interrupted: 1}), at(7, 8))}, nil},
		{"1 of its leases ran out", []*item{popped(leased(leased(pushed("a", at(1, 2)), handout{span: at(3, 4), fence: 1}), handout{span: at(5, 6), fence: 2}), at(7, 8))}, nil},
		{"", []*item{failed(1)}, nil},
		{"with 0 failures: expected 1 to 2", []*item{failed(0)}, nil},
		{"with 3 failures: expected 1 to 2", []*item{failed(3)}, nil},
		{"too many failures after 0", []*item{dead}, nil},
		{`died with the reason "it is wrong"`, []*item{named}, nil},
		{"it died of its age", []*item{old}, nil},
		{"while a had its unique value", []*item{popped(unique(pushed("a", at(1, 2))), at(7, 8)), popped(unique(pushed("b", at(3, 4))), at(5, 6))}, nil},
		{"", []*item{popped(unique(pushed("a", at(1, 2))), at(3, 8)), popped(unique(pushed("b", at(3, 4))), at(5, 6))}, nil},
		{"", []*item{untilLeased(popped(unique(pushed("a", at(1, 2))), at(7, 8))), popped(unique(pushed("b", at(3, 4))), at(5, 6))}, nil},
		{"no item had its unique value", []*item{untilLeased(leased(unique(pushed("a", at(1, 2))), handout{span: at(3, 4)})), duplicate(unique(pushed("b", at(5, 6))))}, nil},
		{"no item had its unique value", []*item{popped(unique(pushed("a", at(1, 2))), at(3, 4)), duplicate(unique(pushed("b", at(5, 6))))}, nil},
		{"", []*item{popped(unique(pushed("a", at(1, 2))), at(3, 5)), duplicate(unique(pushed("b", at(4, 6))))}, nil},
	} {
		j := newJournal(0)
		j.pauses = test.pauses
		for _, it := range test.items {
			j.items[it.name] = it
		}
		switch findings := j.judge(); {
		case test.wrong == "" && len(findings) > 0:
			t.Errorf("found %q in a journal that can be", findings)
		case test.wrong != "" && !slices.ContainsFunc(findings, func(f string) bool { return strings.Contains(f, test.wrong) }):
			t.Errorf("found %q, expected %q", findings, test.wrong)
		}
	}
}
