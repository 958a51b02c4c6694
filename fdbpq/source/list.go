package source

import (
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Get returns a source.
func (s *Sources) Get(r kv.Reader, q fdbpq.Queue, name string) (Source, error) {
	if err := CheckName(name); err != nil {
		return Source{}, err
	}
	h, err := homeOf(r, q)
	if err != nil {
		return Source{}, err
	}
	found, err := s.read(r, h, name)
	if err != nil {
		return Source{}, err
	}
	if found == nil {
		return Source{}, ErrNone
	}
	return *found, nil
}

// List returns a page of sources behind a name.
func (s *Sources) List(r kv.Reader, q fdbpq.Queue, after string, limit int) ([]Source, error) {
	h, err := homeOf(r, q)
	if err != nil {
		return nil, err
	}
	ids, err := h.Page(r, layout.SpaceSource, after, limit)
	if err != nil {
		return nil, err
	}
	return s.readAll(r, ids)
}

// All returns the sources of all queues.
func (s *Sources) All(r kv.Reader) ([]Source, error) {
	ids, err := named.All(r, layout.SpaceSource, MaxStoreCount)
	if err != nil {
		return nil, err
	}
	return s.readAll(r, ids)
}

func (s *Sources) readAll(r kv.Reader, ids []named.ID) (all []Source, err error) {
	for _, id := range ids {
		found, err := s.read(r, home{id.Home}, id.Name)
		if err != nil {
			return nil, err
		}
		if found != nil {
			all = append(all, *found)
		}
	}
	return all, nil
}

// read returns a source with what it does now, nil if there is none.
func (s *Sources) read(r kv.Reader, h home, name string) (*Source, error) {
	found, err := h.read(r, name)
	if err != nil || found == nil {
		return nil, err
	}
	now, err := s.store.Inside().Clock.At(r)
	if err != nil {
		return nil, err
	}
	found.State = found.state(now)
	return found, nil
}
