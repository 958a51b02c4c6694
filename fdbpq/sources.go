package fdbpq

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

var (
	// ErrNoSource: the queue has no source of this name.
	ErrNoSource = errors.New("no such source")
	// ErrSources: there are as many sources as there may be.
	ErrSources = errors.New("too many sources")
	// ErrSourceMoved: the source is elsewhere than the caller has found it. Nothing was done.
	ErrSourceMoved = errors.New("the source has moved")
)

var sourceBounds = named.Bounds{Space: layout.SpaceSource, Queue: MaxSources, Store: MaxStoreSources, TooMany: ErrSources}

// sourcer changes sources of a queue.
type sourcer struct{ Queue }

// SetSource changes the fields of a source that the JSON object names. It makes the source and the queue if need
// be. allowed says why the source may not be as it would be, nil: it may.
func (q Queue) SetSource(tx kv.Tx, name string, object []byte, allowed func(SourceConfig) error) (Source, error) {
	if err := CheckSourceName(name); err != nil {
		return Source{}, err
	}
	qtx, err := q.administer(tx)
	if err == nil {
		err = qtx.orCreate()
	}
	if err == nil {
		err = qtx.keepBirth()
	}
	if err != nil {
		return Source{}, err
	}
	h := homeOfSources(q.name, qtx.state.born)
	before, err := h.read(tx, name)
	if err != nil {
		return Source{}, err
	}
	after := Source{Queue: q.name, Name: name, Born: h.Born, Config: defaultSource(), Position: SourcePosition{}}
	if before != nil {
		after = *before
	} else if err := sourceBounds.Room(tx.Snapshot(), h.Home); err != nil {
		return Source{}, err
	}
	if after.Config, err = after.Config.Merge(object); err != nil {
		return Source{}, err
	}
	if before != nil && (after.Config.Remote != before.Config.Remote || after.Config.Stream != before.Config.Stream || after.Config.Mode != before.Config.Mode ||
		after.Config.Queue != before.Config.Queue || after.Config.Link != before.Config.Link) {
		return Source{}, &SourceError{"remote, stream, queue, link and mode cannot be changed: delete the source, and make another one"}
	}
	if err := allowed(after.Config); err != nil {
		return Source{}, err
	}
	if before == nil && after.Config.OfLink() {
		if err := (sources{q.store}).takesAlone(tx.Snapshot(), &after.Config); err != nil {
			return Source{}, err
		}
		after.Position.Batch = rand.Text() // of no batch: the giver knows this source by it until it has given one
	}
	if before != nil && before.Position.Created == 0 && !after.Config.Start.equal(before.Config.Start) {
		after.Position.to(0)
		after.Position.From = ""
	}
	return after, sourcer{q}.write(tx, &after)
}

// PauseSource stops a source. The methods of one source return ErrNoSource if there is none.
func (q Queue) PauseSource(tx kv.Tx, name string) (Source, error) {
	return sourcer{q}.change(tx, name, func(s *Source) error {
		s.Config.Paused = true
		return nil
	})
}

// SourceResume says with which message a source goes on. At most one field is set.
type SourceResume struct {
	FromSeq  uint64
	FromTime *time.Time
	Skip     bool // pass over the poisoned message
	Accept   bool // take the stream as it is
}

// ResumeSource ends the pause of a source, and its stop if from says how to go on.
func (q Queue) ResumeSource(tx kv.Tx, name string, from SourceResume) (Source, error) {
	return sourcer{q}.change(tx, name, func(s *Source) error {
		p := &s.Position
		stop := p.Stop
		takes := s.Config.Mode == SourceTakes
		switch {
		case s.Config.OfLink() && (from.FromSeq > 0 || from.FromTime != nil):
			return &SourceError{"it is of a link: what was taken is not in the other queue; expected skip, accept or nothing"}
		case takes && (from.FromSeq > 0 || from.FromTime != nil):
			return &SourceError{"the mode is take: what was acknowledged is not in the stream; expected skip, accept or nothing"}
		case from.FromSeq > 0:
			p.to(from.FromSeq - 1)
			p.From = ""
			if p.Created == 0 {
				p.From = fromSeq
			}
		case from.FromTime != nil:
			p.to(0)
			p.Created, p.From = 0, from.FromTime.UTC().Format(time.RFC3339Nano)
		case from.Skip && stop.Reason != StopPoisoned:
			return &SourceError{"there is no poisoned message to skip"}
		case from.Skip:
			p.skip()
		case from.Accept:
			p.accept(s.Config.Mode)
		case stop.Reason != "":
			return &SourceError{"it has stopped, " + string(stop.Reason) + ": expected from_seq, from_time, skip or accept"}
		}
		s.Config.Paused, p.Stop, p.Blocked = false, SourceStop{}, 0
		return nil
	})
}

func (q sourcer) change(tx kv.Tx, name string, change func(*Source) error) (Source, error) {
	s, err := q.Source(tx, name)
	if err != nil {
		return Source{}, err
	}
	if err := change(&s); err != nil {
		return Source{}, err
	}
	return s, q.write(tx, &s)
}

// DeleteSource removes a source.
func (q Queue) DeleteSource(tx kv.Tx, name string) error {
	s, err := q.Source(tx, name)
	if err != nil {
		return err
	}
	h := homeOfSources(q.name, s.Born)
	for _, space := range []string{layout.SpaceSource, layout.SpacePosition, layout.SpaceSourceRunner} {
		tx.Clear(h.Key(space, name))
	}
	return nil
}

// Source returns a source.
func (q Queue) Source(r kv.Reader, name string) (Source, error) {
	if err := CheckSourceName(name); err != nil {
		return Source{}, err
	}
	s, err := q.readState(r)
	if err != nil {
		return Source{}, err
	}
	if s == nil {
		return Source{}, ErrNoQueue
	}
	found, err := homeOfSources(q.name, s.born).read(r, name)
	if err != nil {
		return Source{}, err
	}
	if found == nil {
		return Source{}, ErrNoSource
	}
	return *found, sources{q.store}.state(r, found)
}

// Sources returns a page of sources behind a name.
func (q Queue) Sources(r kv.Reader, after string, limit int) ([]Source, error) {
	s, err := q.readState(r)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, ErrNoQueue
	}
	ids, err := homeOfSources(q.name, s.born).Page(r, layout.SpaceSource, after, limit)
	if err != nil {
		return nil, err
	}
	return sources{q.store}.all(r, ids)
}

// AllSources returns the sources of all queues.
func (s *Store) AllSources(r kv.Reader) ([]Source, error) {
	ids, err := named.All(r, layout.SpaceSource, MaxStoreSources)
	if err != nil {
		return nil, err
	}
	return sources{s}.all(r, ids)
}

// all reads sources.
func (s sources) all(r kv.Reader, ids []named.ID) (found []Source, err error) {
	for _, id := range ids {
		one, err := sourceHome{id.Home}.read(r, id.Name)
		if err != nil {
			return nil, err
		}
		if one == nil {
			continue
		}
		if err := s.state(r, one); err != nil {
			return nil, err
		}
		found = append(found, *one)
	}
	return found, nil
}

// takesAlone refuses a second source of a link: both would say that they have what one of them has.
func (s sources) takesAlone(r kv.Reader, c *SourceConfig) error {
	all, err := s.AllSources(r)
	if err != nil {
		return err
	}
	for i := range all {
		if other := &all[i].Config; other.OfLink() && other.Remote == c.Remote && other.Queue == c.Queue && other.Link == c.Link {
			return &SourceError{"another source takes from this link already"}
		}
	}
	return nil
}

// write writes a source that was changed. What was fetched before finds another position.
func (q sourcer) write(tx kv.Tx, s *Source) error {
	s.Position.Revision++
	definition, err := nounSource.Pack(sourceVersion, s.Config)
	if err != nil {
		return err
	}
	h := homeOfSources(q.name, s.Born)
	tx.Set(h.Key(layout.SpaceSource, s.Name), definition)
	tx.Set(h.Key(layout.SpacePosition, s.Name), s.Position.pack())
	now, err := q.store.inside.Clock.At(tx.Snapshot())
	if err != nil {
		return err
	}
	if !s.Config.Paused && s.Run.Until <= now { // from now on a bridge may see that nobody runs it
		s.Run.vacate(now)
		tx.Set(h.Key(layout.SpaceSourceRunner, s.Name), s.Run.pack())
	}
	s.State = s.state(now)
	return nil
}
