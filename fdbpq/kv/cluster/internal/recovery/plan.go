package recovery

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// Recovery describes a new generation of the log, planned or begun, that goes on from the copy of one member.
type Recovery struct {
	Generation uint64
	Source     Position // whose copy it is
	Members    []Position
	Log        string   // the state of the log that is given up
	Lost       []string // entries that exist, or may exist, and are not in the copy
}

// Consent has the decisions of an operator about a recovery.
type Consent struct {
	Source  string   // the member with whose copy the store goes on; "": the furthest copy
	Without []string // members that do not answer, and whose copies are given up
}

// Plan returns the recovery that a survey allows.
func Plan(s Survey, c Consent) (Recovery, error) {
	if err := mayRecover(s); err != nil {
		return Recovery{Members: s.Members, Log: s.describeLog()}, err
	}
	return Choose(s, c)
}

// mayRecover says why no recovery is needed, or why it has to wait.
func mayRecover(s Survey) error {
	for _, p := range s.Members {
		if p.Answers && p.Role == peers.Active && p.heartbeat.Pending < peers.PendingFor {
			return fmt.Errorf("member %s serves the store: there is nothing to recover", p.Name)
		}
	}
	if s.Begun.Kind == chain.Genesis {
		for _, p := range s.Members {
			if p.Answers && p.Generation == s.From.Generation && p.Entry == s.From.Entry && p.heartbeat.Hash == s.From.Hash {
				return fmt.Errorf("generation %d of the log has begun with the copy of member %s: the members go over to it", s.Newest, p.Name)
			}
		}
		return nil
	}
	if s.Newest > s.At || s.Gone || s.Log.Ended {
		return nil
	}
	lost := s.Doubts != "" || s.Mark.Generation == s.At && s.Mark.Entry > s.Log.Last
	for _, p := range s.Members {
		if !p.Known || p.Entry == 0 || p.Generation != s.At {
			continue
		}
		lost = lost || p.Answers && p.Role == peers.Stopped || p.Entry > s.Log.Last
		for _, o := range s.Members {
			lost = lost || p.Answers && o.Answers && o.differs(p)
		}
		if p.Answers && p.Role != peers.Stopped && max(p.Entry, p.heartbeat.Read) < s.Log.Last && p.Entry+1 >= s.Log.First {
			return fmt.Errorf("member %s has not read the log to its end: it has entry %d of %d: wait until it has, or has stopped", p.Name, p.Entry, s.Log.Last)
		}
	}
	if !lost {
		return errors.New("the log has all entries that members know of, and no member has stopped: there is nothing to recover, and one of the members takes over by itself")
	}
	return nil
}

// Choose picks the copy from which the store goes on.
func Choose(s Survey, c Consent) (Recovery, error) {
	r := Recovery{Generation: s.At + 1, Members: s.Members, Log: s.describeLog()}
	if s.Newest > s.At {
		// The newest generation is taken: a recovery was interrupted before it had a first record, or no copy that
		// answers can go on with that record, because it was purged or another recovery has ended it.
		if r.Generation = s.Newest; s.Begun.Kind == chain.Genesis || s.Used {
			r.Generation++
		}
	}
	for _, name := range slices.Concat(c.Without, []string{c.Source}) {
		if name != "" && !slices.ContainsFunc(s.Members, func(p Position) bool { return p.Name == name }) {
			return r, fmt.Errorf("member %q is not known: expected one of %s", name, s.names(func(Position) bool { return true }))
		}
	}
	silent := s.names(func(p Position) bool { return !p.Answers && !slices.Contains(c.Without, p.Name) })
	if silent != "" {
		return r, fmt.Errorf("no answer from %s, whose copy may be further: start it, or name it to go on without it", silent)
	}
	if named := s.names(func(p Position) bool { return p.Answers && slices.Contains(c.Without, p.Name) }); named != "" {
		return r, fmt.Errorf("%s answers: expected only members without an answer to be given up", named)
	}
	for _, p := range s.Members {
		switch {
		case !p.Answers || p.Entry == 0:
		case c.Source != "" && p.Name != c.Source:
		case p.Generation > r.Source.Generation, p.Generation == r.Source.Generation && p.Entry > r.Source.Entry:
			r.Source = p
		}
	}
	switch {
	case r.Source.Entry == 0 && c.Source != "":
		return r, fmt.Errorf("member %s has no copy, or does not answer: expected another one", c.Source)
	case r.Source.Entry == 0:
		return r, errors.New("no member that answers has a copy of the store")
	}
	for _, p := range s.Members {
		contradicts := p.Entry > 0 && (p.differs(r.Source) || p.heartbeat.Store != r.Source.heartbeat.Store ||
			p.Generation == r.Source.Generation && p.Entry < r.Source.Entry && p.Epoch > r.Source.Epoch)
		if p.Answers && contradicts && c.Source == "" {
			return r, fmt.Errorf("the copies of members %s (entry %d of epoch %d) and %s (entry %d of epoch %d) differ, and none has all of the other: name the one to go on with", r.Source.Name, r.Source.Entry, r.Source.Epoch, p.Name, p.Entry, p.Epoch)
		}
		if lost := p.beyond(r.Source); lost != "" {
			r.Lost = append(r.Lost, lost)
		}
	}
	if m, source := s.Mark, r.Source; len(r.Lost) == 0 && m.Follows(peers.Mark{Generation: source.Generation, Entry: source.Entry}) {
		r.Lost = append(r.Lost, fmt.Sprintf("entries up to %d of generation %d, which member %s had", m.Entry, m.Generation, m.Member))
	}
	if last := s.Log.Last; !s.Gone && !s.Log.Ended && last > r.Source.Entry && r.Source.Generation == s.At {
		r.Lost = append(r.Lost, fmt.Sprintf("entries up to %d that the log has, which no copy goes on with", last))
	}
	for generation := s.At + 1; generation < r.Generation; generation++ {
		lost := fmt.Sprintf("all of generation %d, which no copy that answers follows", generation)
		if generation == s.Newest && s.Begun.Kind == chain.Genesis {
			lost = fmt.Sprintf("all of generation %d, which has begun with entry %d of member %s", generation, s.From.Entry, s.From.Member)
		}
		r.Lost = append(r.Lost, lost)
	}
	return r, nil
}

// FirstRecord is the record with which a process begins the generation of a recovery.
func FirstRecord(r Recovery, process chain.ID) (chain.Record, error) {
	h := r.Source.heartbeat
	from, err := json.Marshal(chain.Base{Member: h.Member, Generation: h.Generation, Entry: h.Entry, Hash: h.Hash})
	if err != nil {
		return chain.Record{}, err
	}
	first := chain.Record{Generation: r.Generation, Process: process, Kind: chain.Genesis, Payload: from}
	if _, err := hex.Decode(first.Store[:], []byte(h.Store)); err != nil {
		return chain.Record{}, err
	}
	for _, p := range r.Members {
		first.Epoch = max(first.Epoch, p.Epoch+1)
	}
	return first, nil
}

// Position is the position of a member in the log.
type Position struct {
	Name    string
	Answers bool // it has answered; otherwise the other fields are from its last message
	Known   bool // it was heard at least once
	Role    peers.Role
	Reason  string

	Generation, Epoch, Entry uint64 // Entry 0: it has no copy

	heartbeat peers.Heartbeat
}

func position(h peers.Heartbeat, answers bool, reason string) Position {
	return Position{
		Name: h.Member, Answers: answers, Known: true, Role: h.Role, Reason: reason,
		Generation: h.Generation, Epoch: h.Epoch, Entry: h.Entry, heartbeat: h,
	}
}

// differs reports whether two copies of a generation end with different entries of the
// same number.
func (p Position) differs(o Position) bool {
	return p.Known && o.Known && p.Entry > 0 && p.Generation == o.Generation && p.Entry == o.Entry &&
		p.heartbeat.Hash != o.heartbeat.Hash && p.heartbeat.Hash != "" && o.heartbeat.Hash != ""
}

// beyond names the entries that a member has, or may have, and the source lacks.
func (p Position) beyond(source Position) string {
	switch {
	case !p.Known:
		return fmt.Sprintf("what member %s alone has: it was not heard", p.Name)
	case p.Entry == 0 || p.Name == source.Name:
		return ""
	case p.heartbeat.Store != source.heartbeat.Store:
		return fmt.Sprintf("the store %s, of which member %s has a copy", p.heartbeat.Store, p.Name)
	case p.Generation > source.Generation:
		return fmt.Sprintf("%d entries of generation %d, which member %s has", p.Entry, p.Generation, p.Name)
	case p.Generation == source.Generation && p.Entry > source.Entry:
		return fmt.Sprintf("entries %d to %d, which member %s has", source.Entry+1, p.Entry, p.Name)
	case p.differs(source), p.Generation == source.Generation && p.Epoch > source.Epoch:
		return fmt.Sprintf("what member %s has in place of entries up to %d", p.Name, p.Entry)
	case !p.Answers:
		return fmt.Sprintf("what member %s alone has behind entry %d of generation %d, which it had when it was heard last", p.Name, p.Entry, p.Generation)
	}
	return ""
}

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
