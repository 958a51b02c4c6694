package election

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Prepare is called before the first server starts. An error says that elections take longer than they could.
func Prepare() error { return hasten() }

// Elector has a server campaign for the groups whose leader is lost.
type Elector struct {
	Server  *server.Server
	Account string // has the streams of the groups
	Log     *slog.Logger

	// Lost are the names of the lost servers, and rank is how many others come before this one. ok is false if no
	// election can succeed.
	Lost func() (names []string, rank int, ok bool)
}

// metaGroup is the group that decides about all streams.
const metaGroup = "_meta_"

const (
	lookEvery   = 25 * time.Millisecond
	groupsEvery = time.Second

	// leaderlessFor is how long a server leaves a group without a leader to an election under way, before it campaigns;
	// with each rank it waits another rankPause.
	leaderlessFor = 200 * time.Millisecond
	rankPause     = 300 * time.Millisecond

	// A server that has entries to apply puts its candidacy off for a second. So one that is no candidate yet campaigns
	// again soon. Two candidates may split the votes. So a candidate campaigns again, too, the first one by rank before the
	// others, and each time later, because a slow disk delays votes.
	campaignAgain = 150 * time.Millisecond
	candidateFor  = 250 * time.Millisecond
	candidateMost = 4 * time.Second
)

// Watch watches until ctx ends.
func (e *Elector) Watch(ctx context.Context) {
	look, list := time.NewTicker(lookEvery), time.NewTicker(groupsEvery)
	defer look.Stop()
	defer list.Stop()
	found := make(chan map[string]*group, 1)
	listing := false
	groups := make(map[string]*group)
	for {
		again := false
		select {
		case now := <-look.C:
			lost, rank, ok := e.Lost()
			for name, g := range groups {
				if g.renamed() {
					again = true
				} else if ok && g.due(now, lost, rank) {
					e.campaign(name, g, now)
				}
			}
		case <-list.C:
			again = true
		case now := <-found:
			listing = false
			for name, g := range now {
				if before, known := groups[name]; known {
					g.since, g.campaigned, g.campaigns = before.since, before.campaigned, before.campaigns
				}
			}
			groups = now
		case <-ctx.Done():
			return
		}
		if again && !listing {
			listing = true
			go func() { found <- e.list() }() // a server whose disk hangs answers late
		}
	}
}

// list returns the groups of this server.
func (e *Elector) list() map[string]*group {
	groups := make(map[string]*group)
	add := func(name, leader string) {
		if n := node(e.Server, name); n != nil {
			groups[name] = &group{node: n, leader: leader, id: n.GroupLeader()}
		}
	}
	all, err := e.Server.Jsz(&server.JSzOptions{Account: e.Account, Streams: true, RaftGroups: true})
	if err != nil {
		return groups // the server stops, or has no JetStream any more
	}
	if all.Meta != nil {
		add(metaGroup, all.Meta.Leader)
	}
	for _, a := range all.AccountDetails {
		for _, s := range a.Streams {
			if s.Cluster != nil && s.RaftGroup != "" {
				add(s.RaftGroup, s.Cluster.Leader)
			}
		}
	}
	return groups
}

// campaign has this server campaign for a group.
func (e *Elector) campaign(name string, g *group, now time.Time) {
	g.campaigned = now
	g.campaigns++
	err := g.node.Campaign()
	e.Log.Info("a group of the log lacks its leader: this node campaigns", "group", name, "leader", g.leader, "for", now.Sub(g.since).Round(time.Millisecond), "error", err)
}

// group is a Raft group of this server.
type group struct {
	node       server.RaftNode
	leader, id string    // its name, and its id in the group; "": there is none
	since      time.Time // the group lacks a leader that runs; zero: it has one
	campaigned time.Time // the last time
	campaigns  int       // for this lack
}

// renamed reports whether the group has a leader whose name is not known.
func (g *group) renamed() bool {
	id := g.node.GroupLeader()
	return id != "" && id != g.id
}

// due reports whether this server has to campaign now.
func (g *group) due(now time.Time, lost []string, rank int) bool {
	none := g.node.GroupLeader() == ""
	if g.node.Leader() || !none && !slices.Contains(lost, g.leader) {
		g.since, g.campaigns = time.Time{}, 0
		return false
	}
	if g.since.IsZero() {
		g.since = now
	}
	pause := time.Duration(rank) * rankPause
	if none {
		pause += leaderlessFor // an election may be under way
	}
	again := campaignAgain
	if g.node.State() != server.Follower {
		again = min(candidateFor*time.Duration(1+rank)<<min(g.campaigns, 8), candidateMost)
	}
	return now.Sub(g.since) >= pause && now.Sub(g.campaigned) >= again
}
