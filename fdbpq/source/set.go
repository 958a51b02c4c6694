package source

import (
	"crypto/rand"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Set changes the fields of a source that the JSON object names. It makes the source and the queue if need
// be. allowed says why the source may not be as it would be, nil: it may.
func (s *Sources) Set(tx kv.Tx, q fdbpq.Queue, name string, object []byte, allowed func(Config) error) (Source, error) {
	if err := CheckName(name); err != nil {
		return Source{}, err
	}
	born, err := q.Make(tx)
	if err != nil {
		return Source{}, err
	}
	h := newHome(q.Name(), born)
	before, err := h.read(tx, name)
	if err != nil {
		return Source{}, err
	}
	after := Source{Queue: q.Name(), Name: name, Born: born, Config: defaultConfig()}
	if before != nil {
		after = *before
	} else if err := bounds.Room(tx.Snapshot(), h.Home); err != nil {
		return Source{}, err
	}
	if after.Config, err = after.Config.merge(object); err != nil {
		return Source{}, err
	}
	if before != nil && !after.Config.readsLike(&before.Config) {
		return Source{}, &Error{"remote, stream, queue, link and mode cannot be changed: delete the source, and make another one"}
	}
	if err := allowed(after.Config); err != nil {
		return Source{}, err
	}
	if before == nil && after.Config.OfLink() {
		if err := s.takesAlone(tx.Snapshot(), &after.Config); err != nil {
			return Source{}, err
		}
		after.Position.Batch = rand.Text() // of no batch: the giver knows this source by it until it has given one
	}
	if before != nil && before.Position.Created == 0 && !after.Config.Start.equal(before.Config.Start) {
		after.Position.to(0)
		after.Position.From = ""
	}
	return after, s.write(tx, &after)
}

// takesAlone refuses a second source of a link: both would say that they have what one of them has.
func (s *Sources) takesAlone(r kv.Reader, c *Config) error {
	all, err := s.All(r)
	if err != nil {
		return err
	}
	for i := range all {
		if other := &all[i].Config; other.OfLink() && other.Remote == c.Remote && other.Queue == c.Queue && other.Link == c.Link {
			return &Error{"another source takes from this link already"}
		}
	}
	return nil
}

// Pause stops a source.
func (s *Sources) Pause(tx kv.Tx, q fdbpq.Queue, name string) (Source, error) {
	return s.change(tx, q, name, func(found *Source) error {
		found.Config.Paused = true
		return nil
	})
}

func (s *Sources) change(tx kv.Tx, q fdbpq.Queue, name string, change func(*Source) error) (Source, error) {
	found, err := s.Get(tx, q, name)
	if err != nil {
		return Source{}, err
	}
	if err := change(&found); err != nil {
		return Source{}, err
	}
	return found, s.write(tx, &found)
}

// write writes a source that was changed. What was fetched before finds another position.
func (s *Sources) write(tx kv.Tx, changed *Source) error {
	changed.Position.Revision++
	definition, err := noun.Pack(rowVersion, changed.Config)
	if err != nil {
		return err
	}
	h := changed.home()
	tx.Set(h.Key(layout.SpaceSource, changed.Name), definition)
	tx.Set(h.Key(layout.SpacePosition, changed.Name), changed.Position.pack())
	now, err := s.store.Inside().Clock.At(tx.Snapshot())
	if err != nil {
		return err
	}
	if run := &changed.Run; !changed.Config.Paused && run.Until <= now { // from now on a process may see that nobody runs it
		run.vacate(now)
		tx.Set(h.Key(layout.SpaceSourceRunner, changed.Name), run.pack())
	}
	changed.State = changed.state(now)
	return nil
}

// Delete removes a source.
func (s *Sources) Delete(tx kv.Tx, q fdbpq.Queue, name string) error {
	found, err := s.Get(tx, q, name)
	if err != nil {
		return err
	}
	h := found.home()
	for _, space := range []string{layout.SpaceSource, layout.SpacePosition, layout.SpaceSourceRunner} {
		tx.Clear(h.Key(space, name))
	}
	return nil
}
