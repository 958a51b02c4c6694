package recovery

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// What a recovery does, loses and refuses, by where the members and the log are.
func TestRecoveryPlan(t *testing.T) {
	t.Parallel()
	at := func(name string, entry uint64, more ...func(*Position)) Position {
		p := Position{
			Name: name, Answers: true, Known: true, Role: peers.Follower, Generation: 1, Epoch: 3, Entry: entry,
			heartbeat: peers.Heartbeat{Member: name, Store: "s", Hash: "h"},
		}
		for _, change := range more {
			change(&p)
		}
		return p
	}
	silent := func(p *Position) { p.Answers = false }
	stopped := func(p *Position) { p.Role = peers.Stopped }
	active := func(p *Position) { p.Role = peers.Active }
	stuck := func(p *Position) { p.Role, p.heartbeat.Pending = peers.Active, time.Minute }
	other := func(p *Position) { p.heartbeat.Hash = "x" }
	foreign := func(p *Position) { p.heartbeat.Store = "z" }
	epoch := func(n uint64) func(*Position) { return func(p *Position) { p.Epoch = n } }
	second := func(p *Position) { p.Generation = 2 }
	log := func(first, last uint64) Log { return Log{First: first, Last: last} }
	begun := chain.Record{Kind: chain.Genesis, Generation: 2}
	for name, c := range map[string]struct {
		s       Survey
		c       Consent
		refused string
		source  string
		begins  uint64
		lost    string // "": nothing
	}{
		"served":              {s: Survey{Members: []Position{at("a", 5, active), at("b", 9)}, Newest: 1, Log: log(1, 5)}, refused: "member a serves"},
		"an active one hangs": {s: Survey{Members: []Position{at("a", 9, stuck), at("b", 9)}, Newest: 1, Log: log(1, 5)}, source: "a", begins: 2},
		"well":                {s: Survey{Members: []Position{at("a", 5), at("b", 5)}, Newest: 1, Log: log(1, 5)}, refused: "nothing to recover"},
		"lost its end":        {s: Survey{Members: []Position{at("a", 4), at("b", 9)}, Newest: 1, Log: log(1, 4)}, source: "b", begins: 2},
		"not read":            {s: Survey{Members: []Position{at("a", 4), at("b", 9, stopped)}, Newest: 1, Log: log(1, 12)}, refused: "member a has not read the log"},
		"cannot read":         {s: Survey{Members: []Position{at("a", 4), at("b", 9, stopped)}, Newest: 1, Log: log(7, 12)}, source: "b", begins: 2, lost: "entries up to 12 that the log has"},
		"stopped":             {s: Survey{Members: []Position{at("a", 5, stopped), at("b", 5)}, Newest: 1, Log: log(1, 5)}, source: "a", begins: 2},
		"remembered": {
			s:      Survey{Members: []Position{at("a", 5), at("b", 5)}, Newest: 1, Log: log(1, 5), Mark: peers.Mark{Generation: 1, Entry: 8, Member: "c"}},
			source: "a", begins: 2, lost: "entries up to 8 of generation 1, which member c had",
		},
		"gone":               {s: Survey{Members: []Position{at("a", 5), at("b", 0)}, Newest: 0, Gone: true}, source: "a", begins: 2},
		"without copies":     {s: Survey{Members: []Position{at("a", 0), at("b", 0)}, Gone: true}, refused: "no member that answers has a copy"},
		"silent":             {s: Survey{Members: []Position{at("a", 5), at("b", 9, silent)}, Gone: true}, refused: "no answer from b"},
		"never heard":        {s: Survey{Members: []Position{at("a", 5), {Name: "b"}}, Gone: true}, refused: "no answer from b"},
		"without it":         {s: Survey{Members: []Position{at("a", 5), at("b", 9, silent)}, Gone: true}, c: Consent{Without: []string{"b"}}, source: "a", begins: 2, lost: "entries 6 to 9, which member b has"},
		"without one behind": {s: Survey{Members: []Position{at("a", 5), at("b", 3, silent)}, Gone: true}, c: Consent{Without: []string{"b"}}, source: "a", begins: 2, lost: "alone has behind entry 3"},
		"without an unheard": {s: Survey{Members: []Position{at("a", 5), {Name: "b"}}, Gone: true}, c: Consent{Without: []string{"b"}}, source: "a", begins: 2, lost: "it was not heard"},
		"without one there":  {s: Survey{Members: []Position{at("a", 5), at("b", 5)}, Gone: true}, c: Consent{Without: []string{"b"}}, refused: "b answers"},
		"unknown":            {s: Survey{Members: []Position{at("a", 5)}, Gone: true}, c: Consent{Source: "z"}, refused: `member "z" is not known`},
		"differing":          {s: Survey{Members: []Position{at("a", 5), at("b", 5, other)}, Newest: 1, Log: log(1, 5)}, refused: "differ"},
		"forked":             {s: Survey{Members: []Position{at("a", 9), at("b", 5, epoch(4))}, Gone: true}, refused: "differ"},
		"of another store":   {s: Survey{Members: []Position{at("a", 9), at("b", 5, foreign)}, Gone: true}, refused: "differ"},
		"chosen":             {s: Survey{Members: []Position{at("a", 9), at("b", 5, epoch(4))}, Gone: true}, c: Consent{Source: "b"}, source: "b", begins: 2, lost: "entries 6 to 9, which member a has"},
		"without a choice":   {s: Survey{Members: []Position{at("a", 9), at("b", 0)}, Gone: true}, c: Consent{Source: "b"}, refused: "member b has no copy"},
		"interrupted":        {s: Survey{Members: []Position{at("a", 5), at("b", 5)}, Newest: 2, Log: Log{Ended: true}}, source: "a", begins: 2},
		"interrupted again":  {s: Survey{Members: []Position{at("a", 5), at("b", 5)}, Newest: 2, Log: Log{Ended: true}, Used: true}, source: "a", begins: 3, lost: "all of generation 2, which no copy that answers follows"},
		"interrupted later":  {s: Survey{Members: []Position{at("a", 5), at("b", 5)}, Newest: 3, Log: Log{Ended: true}}, source: "a", begins: 3, lost: "all of generation 2"},
		"begun": {
			s: Survey{Members: []Position{at("a", 5), at("b", 5)}, Newest: 2, Log: Log{Ended: true}, Begun: begun,
				From: chain.Base{Member: "a", Generation: 1, Entry: 5, Hash: "h"}},
			refused: "has begun with the copy",
		},
		"begun with a lost": {
			s: Survey{Members: []Position{at("a", 5), at("b", 5)}, Newest: 2, Log: Log{Ended: true}, Begun: begun,
				From: chain.Base{Member: "c", Generation: 1, Entry: 7, Hash: "y"}},
			source: "a", begins: 3, lost: "all of generation 2",
		},
		"begun with another": {
			s: Survey{Members: []Position{at("a", 5), at("b", 5)}, Newest: 2, Log: Log{Ended: true}, Begun: begun,
				From: chain.Base{Member: "a", Generation: 1, Entry: 5, Hash: "y"}},
			source: "a", begins: 3, lost: "all of generation 2",
		},
		"older is chosen":     {s: Survey{Members: []Position{at("a", 9), at("b", 2, second)}, Newest: 2, At: 2, Gone: true}, c: Consent{Source: "a"}, source: "a", begins: 3, lost: "2 entries of generation 2, which member b has"},
		"differing is chosen": {s: Survey{Members: []Position{at("a", 5), at("b", 5, other)}, Gone: true}, c: Consent{Source: "a"}, source: "a", begins: 2, lost: "what member b has in place of entries up to 5"},
		"store is chosen":     {s: Survey{Members: []Position{at("a", 9), at("b", 5, foreign)}, Gone: true}, c: Consent{Source: "a"}, source: "a", begins: 2, lost: "the store z, of which member b has a copy"},
		"silent has the end":  {s: Survey{Members: []Position{at("a", 5), at("b", 9, silent)}, Newest: 1, Log: log(1, 5)}, c: Consent{Without: []string{"b"}}, source: "a", begins: 2, lost: "entries 6 to 9, which member b has"},
		"old copy is there":   {s: Survey{Members: []Position{at("a", 5, second), at("b", 900)}, Newest: 2, At: 2, Log: log(1, 5)}, refused: "nothing to recover"},
		"newer generation":    {s: Survey{Members: []Position{at("a", 9), at("b", 2, second)}, Newest: 2, At: 2, Gone: true}, source: "b", begins: 3},
	} {
		c.s.At = max(c.s.At, chain.FirstGeneration)
		r, err := Plan(c.s, c.c)
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %+v, %v, expected a refusal that says %q", name, r, err, c.refused)
			}
		case err != nil || r.Source.Name != c.source || r.Generation != c.begins:
			t.Errorf("%s: generation %d from %q, %v, expected %d from %q", name, r.Generation, r.Source.Name, err, c.begins, c.source)
		case (c.lost == "") != (len(r.Lost) == 0) || !strings.Contains(strings.Join(r.Lost, "; "), c.lost):
			t.Errorf("%s: lost %q, expected %q", name, r.Lost, c.lost)
		}
	}
}

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
