package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/peers"
)

// plan returns the recovery that a survey allows.
func (s survey) plan(c Consent) (Recovery, error) {
	if err := s.mayRecover(); err != nil {
		return Recovery{Members: s.members, Log: s.describeLog()}, err
	}
	return s.choose(c)
}

// mayRecover says why no recovery is needed, or why it has to wait.
func (s survey) mayRecover() error {
	for _, p := range s.members {
		if p.Answers && p.Role == peers.Active && p.heartbeat.Pending < peers.PendingFor {
			return fmt.Errorf("member %s serves the store: there is nothing to recover", p.Name)
		}
	}
	if s.begun.Kind == chain.Genesis {
		for _, p := range s.members {
			if p.Answers && p.Generation == s.from.Generation && p.Entry == s.from.Entry && p.heartbeat.Hash == s.from.Hash {
				return fmt.Errorf("generation %d of the log has begun with the copy of member %s: the members go over to it", s.newest, p.Name)
			}
		}
		return nil
	}
	if s.newest > s.at || s.gone || s.log.Ended {
		return nil
	}
	lost := s.doubts != "" || s.mark.Generation == s.at && s.mark.Entry > s.log.Last
	for _, p := range s.members {
		if !p.Known || p.Entry == 0 || p.Generation != s.at {
			continue
		}
		lost = lost || p.Answers && p.Role == peers.Stopped || p.Entry > s.log.Last
		for _, o := range s.members {
			lost = lost || p.Answers && o.Answers && o.differs(p)
		}
		if p.Answers && p.Role != peers.Stopped && max(p.Entry, p.heartbeat.Read) < s.log.Last && p.Entry+1 >= s.log.First {
			return fmt.Errorf("member %s has not read the log to its end: it has entry %d of %d: wait until it has, or has stopped", p.Name, p.Entry, s.log.Last)
		}
	}
	if !lost {
		return errors.New("the log has all entries that members know of, and no member has stopped: there is nothing to recover, and one of the members takes over by itself")
	}
	return nil
}

// differs reports whether two copies of a generation end with different entries of the
// same number.
func (p Position) differs(o Position) bool {
	return p.Known && o.Known && p.Entry > 0 && p.Generation == o.Generation && p.Entry == o.Entry &&
		p.heartbeat.Hash != o.heartbeat.Hash && p.heartbeat.Hash != "" && o.heartbeat.Hash != ""
}

// choose picks the copy from which the store goes on.
func (s survey) choose(c Consent) (Recovery, error) {
	r := Recovery{Generation: s.at + 1, Members: s.members, Log: s.describeLog()}
	if s.newest > s.at {
		// The newest generation is taken: a recovery was interrupted before it had a first record, or no copy that
		// answers can go on with that record, because it was purged or another recovery has ended it.
		if r.Generation = s.newest; s.begun.Kind == chain.Genesis || s.used {
			r.Generation++
		}
	}
	for _, name := range slices.Concat(c.Without, []string{c.Source}) {
		if name != "" && !slices.ContainsFunc(s.members, func(p Position) bool { return p.Name == name }) {
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
	for _, p := range s.members {
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
	for _, p := range s.members {
		contradicts := p.Entry > 0 && (p.differs(r.Source) || p.heartbeat.Store != r.Source.heartbeat.Store ||
			p.Generation == r.Source.Generation && p.Entry < r.Source.Entry && p.Epoch > r.Source.Epoch)
		if p.Answers && contradicts && c.Source == "" {
			return r, fmt.Errorf("the copies of members %s (entry %d of epoch %d) and %s (entry %d of epoch %d) differ, and none has all of the other: name the one to go on with", r.Source.Name, r.Source.Entry, r.Source.Epoch, p.Name, p.Entry, p.Epoch)
		}
		if lost := p.beyond(r.Source); lost != "" {
			r.Lost = append(r.Lost, lost)
		}
	}
	if m, source := s.mark, r.Source; len(r.Lost) == 0 && m.Follows(peers.Mark{Generation: source.Generation, Entry: source.Entry}) {
		r.Lost = append(r.Lost, fmt.Sprintf("entries up to %d of generation %d, which member %s had", m.Entry, m.Generation, m.Member))
	}
	if last := s.log.Last; !s.gone && !s.log.Ended && last > r.Source.Entry && r.Source.Generation == s.at {
		r.Lost = append(r.Lost, fmt.Sprintf("entries up to %d that the log has, which no copy goes on with", last))
	}
	for generation := s.at + 1; generation < r.Generation; generation++ {
		lost := fmt.Sprintf("all of generation %d, which no copy that answers follows", generation)
		if generation == s.newest && s.begun.Kind == chain.Genesis {
			lost = fmt.Sprintf("all of generation %d, which has begun with entry %d of member %s", generation, s.from.Entry, s.from.Member)
		}
		r.Lost = append(r.Lost, lost)
	}
	return r, nil
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

// names lists the members of a kind.
func (s survey) names(of func(Position) bool) string {
	var all []string
	for _, p := range s.members {
		if of(p) {
			all = append(all, p.Name)
		}
	}
	return strings.Join(all, ", ")
}

func (s survey) describeLog() string {
	switch {
	case s.gone:
		return fmt.Sprintf("generation %d is gone", s.at)
	case s.log.Ended:
		return fmt.Sprintf("generation %d has ended", s.at)
	}
	return fmt.Sprintf("generation %d has entries %d to %d", s.at, s.log.First, s.log.Last)
}
