package takeover

import (
	"encoding/hex"
	"strings"
	"testing"
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
