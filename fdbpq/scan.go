package fdbpq

import (
	"bytes"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// entry is an item found by a scan.
type entry struct {
	place layout.Place
	value []byte
}

// scan reads the ready items of a queue page by page, in the order in which pops of
// one end return them.
type scan struct {
	r          kv.Reader
	prefix     int // bytes before the place
	begin, end []byte
	reverse    bool

	// With oldest, priorities descend, and the items of each are read oldest first;
	// level is the rest of the current priority.
	oldest bool
	level  *scan
}

// nextEntries returns the next items in some order, at least one, and none at the end.
type nextEntries func(limit, maxBytes int) ([]entry, error)

// readyItems returns the ready items in a band of a queue, from one end.
func readyItems(queue string, r kv.Reader, s *queueState, end End, band Band, ties Ties) nextEntries {
	plain := scanOf(queue, r, s, layout.SpaceReady, end, band, ties)
	if !s.keyed {
		return plain.next
	}
	before := func(a, b layout.Place) bool { return a.Compare(b) < 0 }
	switch {
	case plain.oldest:
		before = func(a, b layout.Place) bool {
			return a.Priority > b.Priority || a.Priority == b.Priority && a.Suffix < b.Suffix
		}
	case end == Max:
		before = func(a, b layout.Place) bool { return a.Compare(b) > 0 }
	}
	return merged(before, plain.next, scanOf(queue, r, s, layout.SpaceKeyed, end, band, ties).next)
}

// scan starts at one end of a band in one space of ready items.
func scanOf(queue string, r kv.Reader, s *queueState, space string, end End, band Band, ties Ties) *scan {
	return scanIn(r, layout.GenerationPrefix(space, queue, s.generation), end, band, ties)
}

// scanIn starts at one end of a band of places behind a prefix.
func scanIn(r kv.Reader, prefix []byte, end End, band Band, ties Ties) *scan {
	low, high := band.in(prefix)
	return &scan{
		r:       r,
		prefix:  len(prefix),
		begin:   low,
		end:     high,
		reverse: end == Max,
		oldest:  end == Max && ties == TiesOldest,
	}
}

// prefetch says that the next entries are about to be read.
func (s *scan) prefetch(tx kv.Tx, limit, maxBytes int) {
	tx.PrefetchRange(s.begin, s.end, kv.RangeOptions{Limit: limit, MaxBytes: maxBytes, Reverse: s.reverse})
}

// behind goes on behind a place, if there is one.
func (rest *scan) behind(behind *layout.Place) *scan {
	if behind == nil {
		return rest
	}
	if from := append(behind.Append(bytes.Clone(rest.begin[:rest.prefix])), 0); bytes.Compare(from, rest.begin) > 0 {
		rest.begin = from
	}
	if bytes.Compare(rest.begin, rest.end) > 0 {
		rest.begin = rest.end
	}
	return rest
}

// next returns the next entries, at least one, and none at the end.
func (s *scan) next(limit, maxBytes int) ([]entry, error) {
	if s.oldest {
		return s.nextOfLevel(limit, maxBytes)
	}
	pairs, err := s.r.Range(s.begin, s.end, kv.RangeOptions{Limit: limit, MaxBytes: maxBytes, Reverse: s.reverse})
	if err != nil || len(pairs) == 0 {
		return nil, err
	}
	last := pairs[len(pairs)-1].Key
	if s.reverse {
		s.end = last
	} else {
		s.begin = append(last[:len(last):len(last)], 0)
	}
	entries := make([]entry, len(pairs))
	for i, pair := range pairs {
		p, err := layout.ParsePlace(pair.Key[s.prefix:])
		if err != nil {
			return nil, err
		}
		entries[i] = entry{place: p, value: pair.Value}
	}
	return entries, nil
}

func (s *scan) nextOfLevel(limit, maxBytes int) ([]entry, error) {
	for {
		if s.level == nil {
			highest := scan{r: s.r, prefix: s.prefix, begin: s.begin, end: s.end, reverse: true}
			found, err := highest.next(1, 0)
			if err != nil || len(found) == 0 {
				return nil, err
			}
			level := tuple.AppendInt(s.begin[:s.prefix:s.prefix], found[0].place.Priority)
			s.level = &scan{r: s.r, prefix: s.prefix, begin: level, end: s.end}
			s.end = level
		}
		entries, err := s.level.next(limit, maxBytes)
		if err != nil || len(entries) > 0 {
			return entries, err
		}
		s.level = nil
	}
}

// merged returns the entries of two sources in their common order.
func merged(before func(a, b layout.Place) bool, a, b nextEntries) nextEntries {
	m := merge{before: before}
	m.sources[0].next, m.sources[1].next = a, b
	return m.next
}

// merge reads two sources as one.
type merge struct {
	before  func(a, b layout.Place) bool
	sources [2]source[entry]
}

// source is what a scan has, as far as it was read.
type source[T any] struct {
	next    func(limit, maxBytes int) ([]T, error)
	entries []T
	ended   bool
}

// first returns the first entry that was not taken, nil at the end.
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

// take takes the first entry, which first has returned.
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
