package takeover

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// A member that has more than the log, something else, or a reason of its own objects to a
// takeover. A member that has less, or belonged to a log that is gone, does not.
func TestObjections(t *testing.T) {
	t.Parallel()
	head := chain.Head{Entry: 7, Generation: 2, Store: chain.ID{1}, Hash: chain.Hash{2}}
	began := time.Now()
	before, after := began.Add(-time.Minute), began.Add(time.Millisecond)
	ours, other := hex.EncodeToString(head.Store[:]), strings.Repeat("ff", len(chain.ID{}))
	same := hex.EncodeToString(head.Hash[:])
	for name, c := range map[string]struct {
		p    peers.Heartbeat
		at   time.Time
		says string // "": it does not object
	}{
		"equal":                        {peers.Heartbeat{Store: ours, Generation: 2, Entry: 7, Hash: same}, after, ""},
		"behind":                       {peers.Heartbeat{Store: ours, Generation: 2, Entry: 6, Hash: "x"}, after, ""},
		"without a copy":               {peers.Heartbeat{Store: other}, after, ""},
		"ahead":                        {peers.Heartbeat{Store: ours, Generation: 2, Entry: 8}, after, "has entry 8, the log ends at 7"},
		"ahead, and silent":            {peers.Heartbeat{Store: ours, Generation: 2, Entry: 8}, before, "has entry 8, the log ends at 7"},
		"another entry":                {peers.Heartbeat{Store: ours, Generation: 2, Entry: 7, Hash: "x"}, after, "another entry 7"},
		"another entry, and silent":    {peers.Heartbeat{Store: ours, Generation: 2, Entry: 7, Hash: "x"}, before, "another entry 7"},
		"another store":                {peers.Heartbeat{Store: other, Generation: 2, Entry: 1}, after, "a copy of the store " + other},
		"another store, and gone":      {peers.Heartbeat{Store: other, Generation: 2, Entry: 9}, before, ""},
		"a later generation":           {peers.Heartbeat{Store: ours, Generation: 3, Entry: 1}, after, "follows generation 3"},
		"an earlier generation, ahead": {peers.Heartbeat{Store: ours, Generation: 1, Entry: 9}, after, ""},
		"a reason":                     {peers.Heartbeat{Store: ours, Generation: 2, Entry: 3, Objection: "broken"}, after, "broken"},
		"an entry that it misread":     {peers.Heartbeat{Store: ours, Generation: 2, Entry: 3, Objection: "broken", Misread: true}, after, ""},
		"misread, and ahead":           {peers.Heartbeat{Store: ours, Generation: 2, Entry: 8, Objection: "broken", Misread: true}, after, "has entry 8, the log ends at 7"},
		"a reason, and gone":           {peers.Heartbeat{Store: ours, Generation: 2, Entry: 3, Objection: "broken"}, before, ""},
	} {
		c.p.Member = "b"
		got := Candidacy{Head: head, Began: began, Others: []peers.Peer{{Heartbeat: c.p, Heard: c.at}}}.Objection(&Loss{}, began)
		if c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%s: it says %q, expected %q", name, got, c.says)
		}
	}
}

// What other members know of the last transaction counts if they answer now, and have all of the log.
func TestSilencesThatCount(t *testing.T) {
	t.Parallel()
	head := chain.Head{Entry: 7, Hash: chain.Hash{2}}
	began := time.Now()
	all, part := hex.EncodeToString(head.Hash[:]), "x"
	long, short := new(time.Minute), new(time.Second)
	for name, c := range map[string]struct {
		own     *time.Duration
		peers   []peers.Heartbeat
		heard   time.Duration // after the question
		silence time.Duration // 0: nobody knows
	}{
		"nobody knows":              {nil, []peers.Heartbeat{{Hash: all}}, 1, 0},
		"another one knows":         {nil, []peers.Heartbeat{{Hash: all}, {Hash: all, Silence: short}}, 1, *short},
		"another one knows earlier": {short, []peers.Heartbeat{{Hash: all, Silence: long}}, 1, *long},
		"another one knows later":   {long, []peers.Heartbeat{{Hash: all, Silence: short}}, 1, *long},
		"another part of the log":   {short, []peers.Heartbeat{{Entry: 7, Hash: part, Silence: long}}, 1, *short},
		"before the question":       {short, []peers.Heartbeat{{Hash: all, Silence: long}}, -1, *short},
	} {
		heard := began.Add(c.heard)
		var own time.Time
		if c.own != nil {
			own = heard.Add(-*c.own)
		}
		var known []peers.Peer
		for _, h := range c.peers {
			known = append(known, peers.Peer{Heartbeat: h, Heard: heard})
		}
		at := Candidacy{Head: head, Began: began, Others: known}.LastWrite(own)
		if at.IsZero() != (c.silence == 0) || c.silence > 0 && heard.Sub(at) != c.silence {
			t.Errorf("%s: the last transaction was at %v, expected %v before %v", name, at, c.silence, heard)
		}
	}
}

// Doubts of the disks, and the furthest entry that anybody had, object where no member does. A member that has just begun
// the generation has nothing to lose.
func TestObjectionsWithoutAMember(t *testing.T) {
	t.Parallel()
	process := chain.ID{3}
	at := chain.Head{Entry: 7, Generation: 2, Process: chain.ID{4}}
	for name, c := range map[string]struct {
		c    Candidacy
		says string // "": nobody objects
	}{
		"nothing":                     {Candidacy{Head: at}, ""},
		"doubts":                      {Candidacy{Head: at, Doubts: "a disk went back"}, "a disk went back"},
		"doubts, and who may have it": {Candidacy{Head: at, Doubts: "a disk went back", Missing: "b,c"}, "pqd recover --without b,c"},
		"doubts of a log that it has begun": {
			Candidacy{Head: chain.Head{Entry: 1, Generation: 1, Process: process}, Process: process, Doubts: "a disk went back"}, "",
		},
		"a mark":                  {Candidacy{Head: at, Mark: peers.Mark{Generation: 2, Entry: 8, Member: "c"}}, "member c had entry 8 of generation 2, the log ends at 7"},
		"a mark that it has":      {Candidacy{Head: at, Mark: peers.Mark{Generation: 2, Entry: 7, Member: "c"}}, ""},
		"an earlier generation's": {Candidacy{Head: at, Mark: peers.Mark{Generation: 1, Entry: 9, Member: "c"}}, ""},
	} {
		got := c.c.Objection(&Loss{}, time.Now())
		if c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%s: it says %q, expected %q", name, got, c.says)
		}
	}
}

// Only an active member that has answered, and reaches the log, ends a candidacy.
func TestActiveAnswers(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := chain.Head{Generation: 1, Epoch: 3}
	active := peers.Heartbeat{Member: "b", Role: peers.Active, Generation: 1, Epoch: 3}
	hangs, follows := active, active
	hangs.Pending, follows.Role = peers.PendingFor, peers.Follower
	for name, c := range map[string]struct {
		h     peers.Heartbeat
		heard time.Duration
		want  bool
	}{
		"active":                    {active, 1, true},
		"before it was asked":       {active, -1, false},
		"it does not reach the log": {hangs, 1, false},
		"it follows":                {follows, 1, false},
	} {
		asked := Candidacy{Began: began, Others: []peers.Peer{{Heartbeat: c.h, Heard: began.Add(c.heard)}}}
		if got := asked.ActiveAnswers(at); got != c.want {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
}

// Behind each failure a member waits longer, up to a bound, and less to replace a lost one. When another member was
// heard it begins anew.
func TestAttempts(t *testing.T) {
	t.Parallel()
	const pause = time.Second
	now := time.Now()
	for _, c := range []struct {
		lost            bool
		failures        int
		atLeast, atMost time.Duration
	}{
		{false, 1, pause, pause * 3 / 2},
		{false, 2, 2 * pause, 3 * pause},
		{false, 9, 8 * pause, failedAtMost},
		{true, 1, RankPause, RankPause * 3 / 2},
		{true, 9, failedAtMost, failedAtMost * 3 / 2},
	} {
		a := NewAttempts(pause)
		if !a.May(now) || a.Waited(pause-1) || !a.Waited(2*pause) {
			t.Fatal("expected the first attempt behind a silence of one pause to one and a half")
		}
		for range c.failures {
			a.Failed(c.lost, now)
		}
		if a.May(now.Add(c.atLeast-1)) || !a.May(now.Add(c.atMost+1)) {
			t.Errorf("behind %d failures, to replace a lost member %v: expected the next attempt behind %v to %v", c.failures, c.lost, c.atLeast, c.atMost)
		}
		if a.Reset(); !a.May(now) {
			t.Error("expected no pause once another member was heard")
		}
	}
}

// A log that ends too early has lost entries only once three looks in ten seconds have shown the same end.
func TestLossHasToLast(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const waits = "waiting for the log to show it"
	var l Loss
	for i, c := range []struct {
		end  uint64
		at   time.Duration
		lost bool
	}{
		{5, 0, false}, {5, SteadyFor, false}, {5, SteadyFor, true},
		{4, SteadyFor, false}, {4, SteadyFor + 1, false}, {4, SteadyFor + 2, false}, {4, 2 * SteadyFor, true},
	} {
		if got := l.Verdict(c.end, now.Add(c.at)); (got != waits) != c.lost {
			t.Errorf("look %d, at an end of %d: %q", i, c.end, got)
		}
	}
}

// Who has not been heard for a while, or has ended, is not named as successor; among the
// others the one whose copy is the furthest is.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var others []peers.Peer
	hear := func(h peers.Heartbeat, at time.Time) { others = append(others, peers.Peer{Heartbeat: h, Heard: at}) }
	want := func(name, follower string) {
		t.Helper()
		if got := Successor(name, others, time.Minute, now); got != follower {
			t.Errorf("asked for %q: %q, expected %q", name, got, follower)
		}
	}
	want("", "")
	hear(peers.Heartbeat{Member: "silent", Role: peers.Follower, Entry: 9}, now.Add(-time.Hour))
	hear(peers.Heartbeat{Member: "gone", Role: peers.Follower, Entry: 9, Gone: true}, now.Add(time.Hour))
	hear(peers.Heartbeat{Member: "candidate", Role: peers.Candidate, Entry: 9}, now.Add(time.Hour))
	hear(peers.Heartbeat{Member: "objects", Role: peers.Follower, Entry: 9, Objection: "broken"}, now.Add(time.Hour))
	hear(peers.Heartbeat{Member: "partless", Role: peers.Follower, Entry: 9, Partless: true}, now.Add(time.Hour))
	others = append(others, peers.Peer{Heartbeat: peers.Heartbeat{Member: "lost", Role: peers.Follower, Entry: 9}, Heard: now.Add(time.Hour), Lost: true})
	want("", "")
	hear(peers.Heartbeat{Member: "behind", Role: peers.Follower, Entry: 5}, now.Add(time.Hour))
	want("", "behind")
	hear(peers.Heartbeat{Member: "ahead", Role: peers.Follower, Entry: 6}, now.Add(time.Hour))
	want("", "ahead")
	want("behind", "behind")
	for _, name := range []string{"silent", "gone", "candidate", "objects", "partless", "lost", "nowhere", "a"} {
		want(name, "")
	}
}

// Of the members that could replace a lost one, the first by name comes first, and the active one last. Members that
// are lost, silent, gone or stopped, or have no part of the log, are not waited for.
func TestTurn(t *testing.T) {
	t.Parallel()
	follows := func(name string) peers.Peer {
		return peers.Peer{Heartbeat: peers.Heartbeat{Member: name, Role: peers.Follower}}
	}
	lost, gone, stopped, candidate, partless := follows("a"), follows("a"), follows("a"), follows("a"), follows("a")
	lost.Lost, gone.Gone, stopped.Role, candidate.Role, partless.Partless = true, true, peers.Stopped, peers.Candidate, true
	for name, c := range map[string]struct {
		role    peers.Role
		others  []peers.Peer
		members int
		want    Turn
	}{
		"the first":                            {peers.Follower, []peers.Peer{follows("d"), follows("e")}, 3, Turn{Rank: 0, OK: true}},
		"the last":                             {peers.Follower, []peers.Peer{follows("a"), follows("b")}, 3, Turn{Rank: 2, OK: true}},
		"behind a candidate":                   {peers.Follower, []peers.Peer{candidate, follows("d")}, 3, Turn{Rank: 1, OK: true}},
		"the active one":                       {peers.Active, []peers.Peer{follows("d"), follows("e")}, 3, Turn{Rank: 2, OK: true}},
		"behind a lost one":                    {peers.Follower, []peers.Peer{lost, follows("d")}, 3, Turn{Lost: []string{"a"}, Rank: 0, OK: true}},
		"behind one that ended":                {peers.Follower, []peers.Peer{gone, follows("d")}, 3, Turn{Rank: 0, OK: true}},
		"behind one that stops":                {peers.Follower, []peers.Peer{stopped, follows("d")}, 3, Turn{Rank: 0, OK: true}},
		"behind one without a part of the log": {peers.Follower, []peers.Peer{partless, follows("d")}, 3, Turn{Rank: 0, OK: true}},
		"half of them":                         {peers.Follower, []peers.Peer{lost}, 2, Turn{Lost: []string{"a"}}},
	} {
		got := TurnOf("c", c.role, c.others, c.members)
		if !slices.Equal(got.Lost, c.want.Lost) || got.Rank != c.want.Rank || got.OK != c.want.OK {
			t.Errorf("%s: %+v, expected %+v", name, got, c.want)
		}
	}
	third := Turn{Rank: 2, OK: true}
	if third.Comes(2*RankPause-1) || !third.Comes(2*RankPause) || (Turn{}).Comes(time.Hour) {
		t.Error("expected the third to wait for two pauses, and nobody to replace a lost majority")
	}
}

// A member that is silent is not waited for, though it is not lost.
func TestTurnBehindASilentMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const silence = 500 * time.Millisecond
		all := peers.New("c", silence)
		message, err := json.Marshal(peers.Heartbeat{Member: "a", Role: peers.Follower})
		if err != nil {
			t.Fatal(err)
		}
		all.Hear(message)
		for range 100 {
			<-time.After(silence / 10)
			all.Judge()
		}
		others, _ := all.Heard()
		if got := TurnOf("c", peers.Follower, others, 3); got.Rank != 0 || got.OK || len(got.Lost) > 0 {
			t.Errorf("behind a silent member: %+v", got)
		}
	})
}

// Who has made the log, or is named in a release, need not wait.
func TestInvited(t *testing.T) {
	t.Parallel()
	mine, other := chain.ID{1}, chain.ID{2}
	for name, c := range map[string]struct {
		h         chain.Head
		successor string
		want      bool
	}{
		"made the log":             {chain.Head{Entry: 1, Process: mine}, "", true},
		"another one has":          {chain.Head{Entry: 1, Process: other}, "", false},
		"its own epoch":            {chain.Head{Entry: 2, Process: mine}, "", false},
		"named":                    {chain.Head{Entry: 9, Process: other, Released: true}, "a", true},
		"another one is named":     {chain.Head{Entry: 9, Process: other, Released: true}, "b", false},
		"named before":             {chain.Head{Entry: 9, Process: other}, "a", false},
		"named by its own release": {chain.Head{Entry: 9, Process: mine, Released: true}, "a", false},
	} {
		if got := Invited(c.h, mine, c.successor, "a"); got != c.want {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
}
