package fdbpq

// merged returns the entries of two sources in their common order.
func merged(before func(a, b place) bool, a, b nextEntries) nextEntries {
	m := merge{before: before}
	m.sources[0].next, m.sources[1].next = a, b
	return m.next
}

// merge reads two sources as one.
type merge struct {
	before  func(a, b place) bool
	sources [2]source[entry]
}

// source is what a scan has, as far as it was read.
type source[T any] struct {
	next    func(limit, maxBytes int) ([]T, error)
	entries []T
	ended   bool
}

// first returns the first entry that was not taken, nil when there is none.
func (s *source[T]) first(limit, maxBytes int) (*T, error) {
	if len(s.entries) == 0 && !s.ended {
		var err error
		if s.entries, err = s.next(limit, maxBytes); err != nil {
			return nil, err
		}
		s.ended = len(s.entries) == 0
	}
	if s.ended {
		return nil, nil
	}
	return &s.entries[0], nil
}

// take takes the first one, which first has returned.
func (s *source[T]) take() T {
	first := s.entries[0]
	s.entries = s.entries[1:]
	return first
}

func (m *merge) next(limit, maxBytes int) ([]entry, error) {
	var merged []entry
	for bytes := 0; len(merged) < limit && (bytes == 0 || maxBytes == 0 || bytes < maxBytes); {
		a, err := m.sources[0].first(limit, maxBytes)
		if err != nil {
			return nil, err
		}
		b, err := m.sources[1].first(limit, maxBytes)
		if err != nil {
			return nil, err
		}
		from := &m.sources[0]
		switch {
		case a == nil && b == nil:
			return merged, nil
		case a == nil || b != nil && m.before(b.place, a.place):
			from = &m.sources[1]
		}
		next := from.take()
		merged = append(merged, next)
		bytes += len(next.value)
	}
	return merged, nil
}
