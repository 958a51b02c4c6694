package election

import (
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// fakeNode is a member of a group without a group.
type fakeNode struct {
	server.RaftNode
	leader    string
	leads     bool
	state     server.RaftState
	campaigns int
}

func (n *fakeNode) GroupLeader() string     { return n.leader }
func (n *fakeNode) Leader() bool            { return n.leads }
func (n *fakeNode) State() server.RaftState { return n.state }
func (n *fakeNode) Campaign() error         { n.campaigns++; return nil }

// When a server campaigns, by the loss of the leader, its own rank, and what it does already. Times are of campaigns, from the
// moment at which the group has lost its leader.
func TestDue(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		node fakeNode
		lost []string
		rank int
		want []time.Duration // within a second
	}{
		"the leader runs":                       {fakeNode{leader: "L"}, []string{"other"}, 0, nil},
		"this server leads":                     {fakeNode{leader: "L", leads: true}, []string{"L"}, 0, nil},
		"the leader is lost":                    {fakeNode{leader: "L", state: server.Candidate}, []string{"L"}, 0, []time.Duration{0, 500 * ms}},
		"the leader is lost, entries to apply":  {fakeNode{leader: "L", state: server.Follower}, []string{"L"}, 0, []time.Duration{0, 150 * ms, 300 * ms, 450 * ms, 600 * ms, 750 * ms, 900 * ms}},
		"the leader is lost, another one first": {fakeNode{leader: "L", state: server.Candidate}, []string{"L"}, 1, []time.Duration{300 * ms}},
		"there is no leader":                    {fakeNode{state: server.Candidate}, nil, 0, []time.Duration{200 * ms, 700 * ms}},
		"there is no leader, others first":      {fakeNode{state: server.Candidate}, nil, 2, []time.Duration{800 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			g := &group{node: &c.node, leader: "L", id: c.node.leader}
			e := &Elector{Log: slog.New(slog.DiscardHandler)}
			began := time.Unix(1, 0)
			var got []time.Duration
			for at := time.Duration(0); at < time.Second; at += 25 * ms {
				if g.due(began.Add(at), c.lost, c.rank) {
					e.campaign("group", g, began.Add(at))
					got = append(got, at)
				}
			}
			if len(got) != len(c.want) || c.node.campaigns != len(got) {
				t.Fatalf("it campaigns at %v, expected %v", got, c.want)
			}
			for i := range got {
				if got[i] != c.want[i] {
					t.Errorf("it campaigns at %v, expected %v", got, c.want)
				}
			}
		})
	}
}

// A group that has a leader again forgets how long it had none.
func TestLeaderIsBack(t *testing.T) {
	n := &fakeNode{leader: "L", state: server.Candidate}
	g := &group{node: n, leader: "L", id: "L"}
	at := time.Unix(1, 0)
	if !g.due(at, []string{"L"}, 0) {
		t.Fatal("the leader is lost, and the first server does not campaign")
	}
	if g.due(at.Add(time.Second), nil, 0) {
		t.Fatal("the leader is back, and a server campaigns")
	}
	n.leader = ""
	if g.due(at.Add(2*time.Second), nil, 0) {
		t.Error("a server campaigns as soon as an election may have begun")
	}
	if g.renamed() {
		t.Error("without a leader its name is missing")
	}
	if n.leader = "M"; !g.renamed() {
		t.Error("another leader has the name of the one before")
	}
}
