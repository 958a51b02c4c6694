package recovery

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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
