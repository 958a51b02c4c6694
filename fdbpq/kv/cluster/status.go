package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// Role says what a member does.
type Role = peers.Role

// The roles of a member.
const (
	Follower  = peers.Follower  // it follows the log
	Candidate = peers.Candidate // it heard no active member, and tries to become active
	Active    = peers.Active    // it runs transactions
	Stopped   = peers.Stopped   // its copy and the log do not belong together
)

// Status is a member's view of the cluster.
type Status struct {
	Role       Role
	Generation uint64 // of the log that the copy follows
	Epoch      uint64 // of the log, as far as this member knows
	Entry      uint64 // the last one in the copy
	Synced     uint64 // the last entry that is on this disk
	Log        LogState
	Reached    time.Time // when the log, or an active member that reaches it, was heard last
	CaughtUp   bool      // this member's disk has all entries acknowledged before its start, and another member knows it
	Reason     string    // why no member may become active, or why this member waits
	Takeovers  uint64    // how often this member became active
	Appends    uint64    // records that this member has written
	Members    []MemberStatus
	Partless   string // what a member is whose disk has no part of the log; "": it has one, or no copy yet
	Replaced   bool   // this disk had a part of the log once, and has none now
	Minority   error  // fewer of Options.Members are there than the log needs, and which ones are away; nil: enough are there
}

// MemberStatus is another member as it was heard last.
type MemberStatus struct {
	Name       string
	Role       Role
	Generation uint64
	Epoch      uint64
	Entry      uint64
	Synced     uint64
	Reason     string
	Heard      time.Time

	Version string // of its program
	Runs    bool   // it was heard within livingFor, and has not ended
	Away    bool   // it has ended or is lost, or does not run

	Partless bool // its disk has no part of the log
	Replaced bool // its disk had one once
	HadPart  bool // its disk has one, or had one once
}

// Newest is the last entry of its generation of the log that this member knows: in its copy, in the log, or in the
// copy of another member.
func (s Status) Newest() uint64 {
	newest := max(s.Entry, s.Log.Last)
	for _, m := range s.Members {
		if m.Generation == s.Generation {
			newest = max(newest, m.Entry)
		}
	}
	return newest
}

// Lag is how many entries a copy lacks.
func (s Status) Lag(entry uint64) uint64 { return s.Newest() - min(entry, s.Newest()) }

// statusOf is the present status of a member.
func statusOf(m *member) Status {
	all, _ := m.peers.Heard()
	absent := m.peers.Absent(m.options.unconfirmed())
	own := m.ledger.read().Own
	s, now := m.self.now(), time.Now()
	status := Status{
		Role: s.role, Generation: s.head.Generation, Epoch: s.head.Epoch, Entry: s.head.Entry,
		Synced: s.synced, Log: s.log, Reached: s.reached(now), Reason: s.reason,
		CaughtUp:  own.Lives && (len(own.Witnesses) > 0 || len(m.options.Members) < 2) || m.options.LogReplica == nil,
		Takeovers: s.counts.takeovers, Appends: s.counts.appends,
		Replaced: m.partless.is.Load() && own.Life > 0,
	}
	status.Partless = partless(m.partless.is.Load(), status.Replaced)
	for _, p := range all {
		runs := p.Runs(peers.LivingFor, now)
		status.Members = append(status.Members, MemberStatus{
			Name: p.Member, Role: p.Role, Generation: p.Generation, Epoch: p.Epoch, Entry: p.Entry, Synced: p.Synced, Heard: p.Heard,
			Reason:  cmp.Or(p.Objection, partless(p.Partless, p.Replaced())),
			Version: p.Version, Runs: runs, Away: !runs || slices.Contains(absent, p.Member),
			Partless: p.Partless, Replaced: p.Replaced(), HadPart: p.HadPart(),
		})
	}
	status.Minority = minority(&m.options, status.Members)
	return status
}

// partless says what a member without a part of the log is, or nothing.
func partless(is, replaced bool) string {
	switch {
	case replaced:
		return "its disk has no part of the log any more, since another node has its place: it does not count"
	case is:
		return "its disk has no part of the log: it does not count until it has the place of a lost node"
	}
	return ""
}

// minority says how many members are there and which ones are away, if those that are there cannot write the log. What is away for
// moments says nothing yet, so an ordinary takeover is none.
func minority(o *Options, others []MemberStatus) error {
	there, away := 1, []string(nil)
	for _, m := range others {
		switch {
		case m.Away && !m.Replaced:
			away = append(away, m.Name)
		case !m.Away && !m.Partless: // otherwise it has nothing of what a majority has
			there++
		}
	}
	needed := len(o.Members)/2 + 1
	if there >= needed {
		return nil
	}
	for _, name := range o.Members {
		if name != o.Name && !slices.ContainsFunc(others, func(m MemberStatus) bool { return m.Name == name }) {
			away = append(away, name) // it was never heard
		}
	}
	slices.Sort(away)
	return fmt.Errorf("heard: %d of %d nodes, and %d have to be there: start those that are away: %s", there, len(o.Members), needed, strings.Join(away, ", "))
}
