package fdbpq

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
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

// A queue that only a later program serves has timers, and may have kinds of them that this program does not know. They stay, and
// there may be many: so this process remembers up to which key there are no others. It looks at them again after a while, because
// the queue may be deleted, and made again in a format that it knows. The same holds for timers whose work waits for room.

const (
	// passedFor is how long a timer has been due before this process may remember it. No transaction takes so long, so none sets
	// a timer before one that is remembered.
	passedFor = 10 * time.Second

	// passedAgain is how long this process remembers timers.
	passedAgain = time.Minute
)

// passedOver are timers that a sweep has passed over.
type passedOver struct {
	queues inside.Passed // whose they are, of those for a later program
	short  shortage      // the greatest that one of them waits for to end
	behind []byte        // the last of them that may be remembered
}

// add passes over a timer, at a store time.
func (p *passedOver) add(key []byte, t layout.Timer, at int64) {
	if t.Due <= at-int64(passedFor) {
		p.behind = key
	}
}

// passedTimers are the timers that this process has passed over. Its methods may be called from any number of goroutines.
type passedTimers struct {
	mu     sync.Mutex
	behind []byte        // all timers up to this key; nil: none
	short  shortage      // the greatest that one of them waits for to end
	since  time.Duration // by the process's clock
}

// note remembers what a sweep has passed over.
func (p *passedTimers) note(over passedOver, now time.Duration) {
	if over.behind == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.behind == nil {
		p.since = now
	}
	p.behind, p.short = over.behind, max(p.short, over.short)
}

// last returns the last of the timers with which a sweep need not begin, nil without any, and for which shortage's end they wait.
func (p *passedTimers) last(now time.Duration, short shortage) (behind []byte, waits shortage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.behind != nil && (now-p.since >= passedAgain || p.short > short) {
		p.behind, p.short = nil, roomy
	}
	return slices.Clone(p.behind), p.short
}

// readAhead is the head of a queue, read before the queue's state is known, so that
// an engine over a network serves it at the same time as prefetched rows.
type readAhead struct {
	guess   *queueState // assumed state
	rest    nextEntries
	entries []entry // the first ones
	given   bool
}

// startReadAhead reads the head of the queue if the queue's state can be guessed and
// the transaction has not read it yet.
func startReadAhead(w *Work, queue string, sel *Selection) (*readAhead, error) {
	if w.known(queue) != nil {
		return nil, nil
	}
	guess := w.store.queueStates.last(queue)
	if guess == nil || sel.PopID != "" || !guess.likelyRead(sel) {
		return nil, nil
	}
	next := readyItems(queue, w.front(guess), guess, sel.End, *sel.Band, guess.config.Ties)
	entries, err := next(sel.Limit, sel.MaxBytes)
	return &readAhead{guess: guess, rest: next, entries: entries}, err
}

// next returns the entries that were read ahead, and then those that follow.
func (a *readAhead) next(limit, maxBytes int) ([]entry, error) {
	if a.given {
		return a.rest(limit, maxBytes)
	}
	a.given = true
	return a.entries, nil
}
