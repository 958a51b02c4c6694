package cluster

import (
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
	log := func(first, last uint64) LogState { return LogState{Identity: "i", First: first, Last: last} }
	begun := chain.Record{Kind: chain.Genesis, Generation: 2}
	for name, c := range map[string]struct {
		s       survey
		c       Consent
		refused string
		source  string
		begins  uint64
		lost    string // "": nothing
	}{
		"served":              {s: survey{members: []Position{at("a", 5, active), at("b", 9)}, newest: 1, log: log(1, 5)}, refused: "member a serves"},
		"an active one hangs": {s: survey{members: []Position{at("a", 9, stuck), at("b", 9)}, newest: 1, log: log(1, 5)}, source: "a", begins: 2},
		"well":                {s: survey{members: []Position{at("a", 5), at("b", 5)}, newest: 1, log: log(1, 5)}, refused: "nothing to recover"},
		"lost its end":        {s: survey{members: []Position{at("a", 4), at("b", 9)}, newest: 1, log: log(1, 4)}, source: "b", begins: 2},
		"not read":            {s: survey{members: []Position{at("a", 4), at("b", 9, stopped)}, newest: 1, log: log(1, 12)}, refused: "member a has not read the log"},
		"cannot read":         {s: survey{members: []Position{at("a", 4), at("b", 9, stopped)}, newest: 1, log: log(7, 12)}, source: "b", begins: 2, lost: "entries up to 12 that the log has"},
		"stopped":             {s: survey{members: []Position{at("a", 5, stopped), at("b", 5)}, newest: 1, log: log(1, 5)}, source: "a", begins: 2},
		"remembered": {
			s:      survey{members: []Position{at("a", 5), at("b", 5)}, newest: 1, log: log(1, 5), mark: peers.Mark{Generation: 1, Entry: 8, Member: "c"}},
			source: "a", begins: 2, lost: "entries up to 8 of generation 1, which member c had",
		},
		"gone":               {s: survey{members: []Position{at("a", 5), at("b", 0)}, newest: 0, gone: true}, source: "a", begins: 2},
		"without copies":     {s: survey{members: []Position{at("a", 0), at("b", 0)}, gone: true}, refused: "no member that answers has a copy"},
		"silent":             {s: survey{members: []Position{at("a", 5), at("b", 9, silent)}, gone: true}, refused: "no answer from b"},
		"never heard":        {s: survey{members: []Position{at("a", 5), {Name: "b"}}, gone: true}, refused: "no answer from b"},
		"without it":         {s: survey{members: []Position{at("a", 5), at("b", 9, silent)}, gone: true}, c: Consent{Without: []string{"b"}}, source: "a", begins: 2, lost: "entries 6 to 9, which member b has"},
		"without one behind": {s: survey{members: []Position{at("a", 5), at("b", 3, silent)}, gone: true}, c: Consent{Without: []string{"b"}}, source: "a", begins: 2, lost: "alone has behind entry 3"},
		"without an unheard": {s: survey{members: []Position{at("a", 5), {Name: "b"}}, gone: true}, c: Consent{Without: []string{"b"}}, source: "a", begins: 2, lost: "it was not heard"},
		"without one there":  {s: survey{members: []Position{at("a", 5), at("b", 5)}, gone: true}, c: Consent{Without: []string{"b"}}, refused: "b answers"},
		"unknown":            {s: survey{members: []Position{at("a", 5)}, gone: true}, c: Consent{Source: "z"}, refused: `member "z" is not known`},
		"differing":          {s: survey{members: []Position{at("a", 5), at("b", 5, other)}, newest: 1, log: log(1, 5)}, refused: "differ"},
		"forked":             {s: survey{members: []Position{at("a", 9), at("b", 5, epoch(4))}, gone: true}, refused: "differ"},
		"of another store":   {s: survey{members: []Position{at("a", 9), at("b", 5, foreign)}, gone: true}, refused: "differ"},
		"chosen":             {s: survey{members: []Position{at("a", 9), at("b", 5, epoch(4))}, gone: true}, c: Consent{Source: "b"}, source: "b", begins: 2, lost: "entries 6 to 9, which member a has"},
		"without a choice":   {s: survey{members: []Position{at("a", 9), at("b", 0)}, gone: true}, c: Consent{Source: "b"}, refused: "member b has no copy"},
		"interrupted":        {s: survey{members: []Position{at("a", 5), at("b", 5)}, newest: 2, log: LogState{Ended: true}}, source: "a", begins: 2},
		"interrupted again":  {s: survey{members: []Position{at("a", 5), at("b", 5)}, newest: 2, log: LogState{Ended: true}, used: true}, source: "a", begins: 3, lost: "all of generation 2, which no copy that answers follows"},
		"interrupted later":  {s: survey{members: []Position{at("a", 5), at("b", 5)}, newest: 3, log: LogState{Ended: true}}, source: "a", begins: 3, lost: "all of generation 2"},
		"begun": {
			s: survey{members: []Position{at("a", 5), at("b", 5)}, newest: 2, log: LogState{Ended: true}, begun: begun,
				from: chain.Base{Member: "a", Generation: 1, Entry: 5, Hash: "h"}},
			refused: "has begun with the copy",
		},
		"begun with a lost": {
			s: survey{members: []Position{at("a", 5), at("b", 5)}, newest: 2, log: LogState{Ended: true}, begun: begun,
				from: chain.Base{Member: "c", Generation: 1, Entry: 7, Hash: "y"}},
			source: "a", begins: 3, lost: "all of generation 2",
		},
		"begun with another": {
			s: survey{members: []Position{at("a", 5), at("b", 5)}, newest: 2, log: LogState{Ended: true}, begun: begun,
				from: chain.Base{Member: "a", Generation: 1, Entry: 5, Hash: "y"}},
			source: "a", begins: 3, lost: "all of generation 2",
		},
		"older is chosen":     {s: survey{members: []Position{at("a", 9), at("b", 2, second)}, newest: 2, at: 2, gone: true}, c: Consent{Source: "a"}, source: "a", begins: 3, lost: "2 entries of generation 2, which member b has"},
		"differing is chosen": {s: survey{members: []Position{at("a", 5), at("b", 5, other)}, gone: true}, c: Consent{Source: "a"}, source: "a", begins: 2, lost: "what member b has in place of entries up to 5"},
		"store is chosen":     {s: survey{members: []Position{at("a", 9), at("b", 5, foreign)}, gone: true}, c: Consent{Source: "a"}, source: "a", begins: 2, lost: "the store z, of which member b has a copy"},
		"silent has the end":  {s: survey{members: []Position{at("a", 5), at("b", 9, silent)}, newest: 1, log: log(1, 5)}, c: Consent{Without: []string{"b"}}, source: "a", begins: 2, lost: "entries 6 to 9, which member b has"},
		"old copy is there":   {s: survey{members: []Position{at("a", 5, second), at("b", 900)}, newest: 2, at: 2, log: log(1, 5)}, refused: "nothing to recover"},
		"newer generation":    {s: survey{members: []Position{at("a", 9), at("b", 2, second)}, newest: 2, at: 2, gone: true}, source: "b", begins: 3},
	} {
		c.s.at = max(c.s.at, chain.FirstGeneration)
		r, err := c.s.plan(c.c)
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
