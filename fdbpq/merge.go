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
	sources [2]source
}

// source is what one of them has, as far as it was read.
type source struct {
	next    nextEntries
	entries []entry
	ended   bool
}

// first returns the first entry that was not taken, nil when there is none.
func (s *source) first(limit, maxBytes int) (*entry, error) {
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
		merged = append(merged, from.entries[0])
		bytes += len(from.entries[0].value)
		from.entries = from.entries[1:]
	}
	return merged, nil
}
