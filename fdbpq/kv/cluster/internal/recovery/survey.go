package recovery

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// Survey is the state of members and log at one time.
type Survey struct {
	Members []Position
	Newest  uint64 // generation that has a log
	At      uint64 // generation of the furthest copy that answers
	Log     Log
	Gone    bool         // there is no log of that generation
	Begun   chain.Record // the record that begins the newest generation, if that is newer
	From    chain.Base   // its payload
	Used    bool         // no record can begin the newest generation, which is newer: it has ended, or its first entry was purged
	Mark    peers.Mark   // the furthest entry that a member was heard to have
	Doubts  string       // why acknowledged entries may be on a disk that is away
}

// Log is what a survey has to know of a log.
type Log struct {
	Ended       bool // the other fields do not matter then
	First, Last uint64
}

// Of returns what a member that asked the others knows of all of them, and nothing of the log: own is its own
// heartbeat, names are those of all members, and mark is the furthest entry of a store that any member was heard to have.
func Of(own peers.Heartbeat, reason string, others []peers.Peer, asked time.Time, names []string, mark func(store string) peers.Mark) Survey {
	var s Survey
	s.Members = []Position{position(own, true, reason)}
	for _, p := range others {
		s.Members = append(s.Members, position(p.Heartbeat, p.Heard.After(asked) && !p.Gone, p.Objection))
	}
	for _, name := range names {
		if !slices.ContainsFunc(s.Members, func(p Position) bool { return p.Name == name }) {
			s.Members = append(s.Members, Position{Name: name})
		}
	}
	slices.SortFunc(s.Members, func(a, b Position) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range s.Members {
		if p.Answers {
			s.At = max(s.At, p.Generation)
		}
	}
	s.At = max(s.At, chain.FirstGeneration)
	for _, p := range s.Members {
		if m := mark(p.heartbeat.Store); p.Answers && p.Entry > 0 && m.Follows(s.Mark) {
			s.Mark = m
		}
	}
	if m := s.Mark; m.Entry > 0 && !slices.ContainsFunc(s.Members, func(p Position) bool { return p.Name == m.Member }) {
		s.Members = append(s.Members, Position{Name: m.Member, Known: true, Generation: m.Generation, Entry: m.Entry, heartbeat: peers.Heartbeat{Store: m.Store}})
	}
	return s
}

// WaitsFor names a member that answered in the survey and whose copy may take entries in a later one, or nothing. Once
// there is none, the answers show all entries that an active member has acknowledged up to the end of its log.
func (s Survey) WaitsFor(later Survey) (name string) {
	for _, p := range s.Members {
		i := slices.IndexFunc(later.Members, func(o Position) bool { return o.Name == p.Name })
		if o := later.Members[i]; p.Answers && p.Entry > 0 && (!o.Answers || !o.heartbeat.Final) {
			name = p.Name
		}
	}
	return name
}

// names lists the members of a kind.
func (s Survey) names(of func(Position) bool) string {
	var all []string
	for _, p := range s.Members {
		if of(p) {
			all = append(all, p.Name)
		}
	}
	return strings.Join(all, ", ")
}

func (s Survey) describeLog() string {
	switch {
	case s.Gone:
		return fmt.Sprintf("generation %d is gone", s.At)
	case s.Log.Ended:
		return fmt.Sprintf("generation %d has ended", s.At)
	}
	return fmt.Sprintf("generation %d has entries %d to %d", s.At, s.Log.First, s.Log.Last)
}
