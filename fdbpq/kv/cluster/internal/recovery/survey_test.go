package recovery

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// A survey has all members that are known, and takes for answers what came behind the question. Of the marks that of the
// stores counts whose members answer.
func TestSurveyOfMembers(t *testing.T) {
	t.Parallel()
	asked := time.Now()
	before, after := asked.Add(-time.Second), asked.Add(time.Millisecond)
	at := func(name, store string, generation, entry uint64) peers.Heartbeat {
		return peers.Heartbeat{Member: name, Role: peers.Follower, Store: store, Generation: generation, Entry: entry}
	}
	ends := at("d", "s", 1, 5)
	ends.Gone = true
	others := []peers.Peer{{Heartbeat: at("c", "s", 1, 5), Heard: before}, {Heartbeat: ends, Heard: after}, {Heartbeat: at("b", "s", 2, 6), Heard: after}}
	marks := map[string]peers.Mark{"s": {Store: "s", Generation: 2, Entry: 8, Member: "x"}, "z": {Store: "z", Generation: 9, Entry: 9, Member: "y"}}
	s := Of(at("a", "s", 1, 5), "why", others, asked, []string{"a", "b", "c", "e"}, func(store string) peers.Mark { return marks[store] })
	var answers, silent []string
	for _, p := range s.Members {
		if p.Answers {
			answers = append(answers, p.Name)
		} else {
			silent = append(silent, p.Name)
		}
	}
	if !slices.Equal(answers, []string{"a", "b"}) || !slices.Equal(silent, []string{"c", "d", "e", "x"}) {
		t.Errorf("%v answer, %v do not", answers, silent)
	}
	if s.At != 2 || s.Mark.Member != "x" {
		t.Errorf("generation %d, mark %+v", s.At, s.Mark)
	}
	if first := s.Members[0]; first.Reason != "why" || s.Members[4].Known || !s.Members[5].Known {
		t.Errorf("members %+v", s.Members)
	}
}

// A generation begins only once the copies of all members that answered take no more entries.
func TestWaitsFor(t *testing.T) {
	t.Parallel()
	at := func(name string, change func(*Position)) Position {
		p := Position{Name: name, Answers: true, Entry: 5, heartbeat: peers.Heartbeat{Final: true}}
		if change != nil {
			change(&p)
		}
		return p
	}
	silent := func(p *Position) { p.Answers = false }
	for name, c := range map[string]struct {
		before, later func(*Position)
		waits         bool
	}{
		"it has stopped":       {},
		"it follows":           {later: func(p *Position) { p.heartbeat.Final = false }, waits: true},
		"it is silent since":   {later: silent, waits: true},
		"it was silent before": {before: silent, later: silent},
		"it had no copy":       {before: func(p *Position) { p.Entry = 0 }, later: silent},
	} {
		before := Survey{Members: []Position{at("a", nil), at("b", c.before)}}
		later := Survey{Members: []Position{at("a", nil), at("b", c.later)}}
		if got := before.WaitsFor(later); (got == "b") != c.waits || !c.waits && got != "" {
			t.Errorf("%s: it waits for %q", name, got)
		}
	}
}

// The epoch of a new generation is later than that of any member, given up or not: no epoch stands twice.
func TestFirstRecord(t *testing.T) {
	t.Parallel()
	source := Position{Name: "a", Epoch: 3, heartbeat: peers.Heartbeat{Member: "a", Store: strings.Repeat("0a", 16), Generation: 1, Entry: 5, Hash: "00"}}
	r := Recovery{Generation: 2, Source: source, Members: []Position{source, {Name: "b", Epoch: 7}}}
	first, err := FirstRecord(r, chain.ID{1})
	if err != nil {
		t.Fatal(err)
	}
	if store := first.Store.String(); first.Epoch != 8 || first.Generation != 2 || first.Kind != chain.Genesis || store != source.heartbeat.Store {
		t.Errorf("the first record is %+v", first)
	}
}
