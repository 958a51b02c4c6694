package takeover

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// Of the members that could replace a lost one, the first by name comes first, and the active one last. Members that
// are lost, silent, gone or stopped are not waited for.
func TestTurn(t *testing.T) {
	t.Parallel()
	follows := func(name string) peers.Peer {
		return peers.Peer{Heartbeat: peers.Heartbeat{Member: name, Role: peers.Follower}}
	}
	lost, gone, stopped, candidate := follows("a"), follows("a"), follows("a"), follows("a")
	lost.Lost, gone.Gone, stopped.Role, candidate.Role = true, true, peers.Stopped, peers.Candidate
	for name, c := range map[string]struct {
		role    peers.Role
		others  []peers.Peer
		members int
		want    Turn
	}{
		"the first":             {peers.Follower, []peers.Peer{follows("d"), follows("e")}, 3, Turn{Rank: 0, OK: true}},
		"the last":              {peers.Follower, []peers.Peer{follows("a"), follows("b")}, 3, Turn{Rank: 2, OK: true}},
		"behind a candidate":    {peers.Follower, []peers.Peer{candidate, follows("d")}, 3, Turn{Rank: 1, OK: true}},
		"the active one":        {peers.Active, []peers.Peer{follows("d"), follows("e")}, 3, Turn{Rank: 2, OK: true}},
		"behind a lost one":     {peers.Follower, []peers.Peer{lost, follows("d")}, 3, Turn{Lost: []string{"a"}, Rank: 0, OK: true}},
		"behind one that ended": {peers.Follower, []peers.Peer{gone, follows("d")}, 3, Turn{Rank: 0, OK: true}},
		"behind one that stops": {peers.Follower, []peers.Peer{stopped, follows("d")}, 3, Turn{Rank: 0, OK: true}},
		"half of them":          {peers.Follower, []peers.Peer{lost}, 2, Turn{Lost: []string{"a"}}},
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
