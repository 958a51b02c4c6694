package local

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// scan is one range read: the store's pairs, with the gaps jumped over, merged
// with the transaction's own writes. It runs in either direction; "before" and
// "after" are meant in the direction of the scan.
type scan struct {
	t       *tx
	iter    *pebble.Iterator
	begin   []byte
	end     []byte
	opts    kv.RangeOptions
	out     *scratch
	own     int // next own write, an index in writes.sorted
	ownStop int // the index at which own writes end
}

// scratch collects the pairs of a scan until it is known how many they are.
type scratch struct {
	data  []byte
	pairs []pairEnds
	edge  []byte // the last key seen
	gaps  []seenGap
}

type pairEnds struct{ key, value int } // offsets in data

type seenGap struct {
	keyRange
	steps int
}

// scan returns the pairs of a range, and whether a bound of opts cut it short.
func (t *tx) scan(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, bool, error) {
	iter, err := t.iterator()
	if err != nil {
		return nil, false, err
	}
	out := &t.buf.scratch
	out.reset()
	s := scan{t: t, iter: iter, begin: begin, end: end, opts: opts, out: out}
	if w := &t.buf.writes; w.keys.len() > 0 {
		s.own, s.ownStop = w.search(begin), w.search(end)
		if opts.Reverse {
			s.own, s.ownStop = s.ownStop-1, s.own-1
		}
	}
	cut, err := s.run()
	if err != nil {
		return nil, false, err
	}
	for _, g := range out.gaps {
		t.db.gaps.record(g.keyRange, g.steps, t.pinned)
	}
	return out.copyOut(), cut, nil
}

func (s *scan) run() (cut bool, err error) {
	pos := s.begin
	if s.opts.Reverse {
		pos = s.end
	}
	for {
		from, limit, ok := s.segment(pos)
		if !ok {
			return s.ownBefore(nil), nil
		}
		if cut, err := s.walk(from, limit); cut || err != nil {
			return cut, err
		}
		pos = limit
	}
}

// segment finds the next piece of the range at or after pos that may hold keys
// of the store: ranges that the transaction cleared do not, nor do gaps.
func (s *scan) segment(pos []byte) (from, limit []byte, ok bool) {
	cleared := s.t.buf.writes.cleared
	for {
		if s.opts.Reverse {
			from, limit = s.jumpBackward(pos)
			if bytes.Compare(from, s.begin) <= 0 {
				return nil, nil, false
			}
		} else {
			from, limit = s.jumpForward(pos)
			if bytes.Compare(from, s.end) >= 0 {
				return nil, nil, false
			}
		}
		if len(cleared) == 0 {
			return from, limit, true
		}
		if !s.opts.Reverse {
			i := cleared.search(from)
			if i == len(cleared) {
				return from, limit, true
			}
			if r := cleared[i]; bytes.Compare(r.begin, from) > 0 {
				if bytes.Compare(r.begin, limit) < 0 {
					limit = r.begin
				}
				return from, limit, true
			}
			pos = cleared[i].end
			continue
		}
		i := cleared.searchEnd(from)
		if i < 0 {
			return from, limit, true
		}
		if r := cleared[i]; bytes.Compare(r.end, from) < 0 {
			if bytes.Compare(r.end, limit) > 0 {
				limit = r.end
			}
			return from, limit, true
		}
		pos = cleared[i].begin
	}
}

func (s *scan) jumpForward(pos []byte) (from, limit []byte) {
	from, limit, asOf := s.t.db.gaps.forward(pos, s.end)
	if asOf <= s.t.pinned.version {
		return from, limit
	}
	// What was empty at asOf may not have been at this transaction's state, but
	// only where a commit in between made a change.
	changed := s.t.pinned.changes(keyRange{pos, from}, asOf)
	if changed.begin == nil || bytes.Compare(changed.begin, s.end) >= 0 {
		return from, limit
	}
	if bytes.Compare(changed.end, s.end) > 0 {
		changed.end = s.end
	}
	return changed.begin, changed.end
}

func (s *scan) jumpBackward(pos []byte) (from, limit []byte) {
	from, limit, asOf := s.t.db.gaps.backward(pos, s.begin)
	if asOf <= s.t.pinned.version {
		return from, limit
	}
	changed := s.t.pinned.changes(keyRange{from, pos}, asOf)
	if changed.begin == nil || bytes.Compare(changed.end, s.begin) <= 0 {
		return from, limit
	}
	if bytes.Compare(changed.begin, s.begin) < 0 {
		changed.begin = s.begin
	}
	return changed.end, changed.begin
}

// walk reads one segment. It notes where it stepped over many tombstones.
func (s *scan) walk(from, limit []byte) (cut bool, err error) {
	steps := s.steps()
	found := 0
	state := s.seek(from, limit)
	for state == pebble.IterValid {
		key := s.iter.Key()
		if s.beyond(key, limit) {
			break
		}
		// One step, or two for a key that was overwritten, is no tombstone.
		now := s.steps()
		s.note(found, from, key, now-steps)
		steps = now
		found++
		s.out.edge = append(s.out.edge[:0], key...)
		if s.ownBefore(key) {
			return true, nil
		}
		value, err := s.iter.ValueAndErr()
		if err != nil {
			return false, unavailable(err)
		}
		if s.emitBase(key, value) {
			return true, nil
		}
		state = s.step(limit)
	}
	if err := s.iter.Error(); err != nil {
		return false, unavailable(err)
	}
	steps = s.steps() - steps
	if found == 0 && s.bounded(from, limit) {
		// What lies between two gaps, or a gap and the end, turns out to be
		// empty: one gap is better than two, however few steps this was.
		steps = max(steps, s.t.db.gaps.limits.minWeight)
	}
	s.note(found, from, limit, steps)
	return false, nil
}

// bounded tells whether the segment stops short of the range, at a gap.
func (s *scan) bounded(from, limit []byte) bool {
	if s.opts.Reverse {
		return !bytes.Equal(limit, s.begin) || !bytes.Equal(from, s.end)
	}
	return !bytes.Equal(limit, s.end) || !bytes.Equal(from, s.begin)
}

// note remembers that nothing lies between the last key found, or from if it is
// the first, and to, if it was worth more than a few steps to learn that.
func (s *scan) note(found int, from, to []byte, steps int) {
	if steps < s.t.db.gaps.limits.minWeight {
		return
	}
	var r keyRange
	switch {
	case !s.opts.Reverse && found == 0:
		r = keyRange{bytes.Clone(from), bytes.Clone(to)}
	case !s.opts.Reverse:
		r = keyRange{keyAfter(s.out.edge), bytes.Clone(to)}
	case found == 0:
		r = keyRange{s.after(to), bytes.Clone(from)}
	default:
		r = keyRange{s.after(to), bytes.Clone(s.out.edge)}
	}
	if bytes.Compare(r.begin, r.end) < 0 {
		s.out.gaps = append(s.out.gaps, seenGap{r, steps})
	}
}

// after returns where a gap begins that a backward scan saw end at to: after
// it if it is a key, with it if it is where the segment ends.
func (s *scan) after(to []byte) []byte {
	if s.iter.Valid() {
		return keyAfter(to)
	}
	return bytes.Clone(to)
}

// ownBefore puts out the own writes before key, all of them if key is nil.
func (s *scan) ownBefore(key []byte) (full bool) {
	w := &s.t.buf.writes
	for s.own != s.ownStop {
		i := w.sorted[s.own]
		own := w.keys.key(i)
		if key != nil && !s.precedes(own, key) {
			return false
		}
		s.ownStep()
		if e := &w.entries[i]; e.kind != writeClear && s.emitOwn(e, own, 0) {
			return true
		}
	}
	return false
}

// emitBase puts out a pair of the store with the own write to it, if any.
func (s *scan) emitBase(key, value []byte) (full bool) {
	if s.own != s.ownStop {
		w := &s.t.buf.writes
		if i := w.sorted[s.own]; bytes.Equal(w.keys.key(i), key) {
			s.ownStep()
			e := &w.entries[i]
			if e.kind == writeClear {
				return false
			}
			return s.emitOwn(e, key, kv.DecodeInteger(value))
		}
	}
	return s.emit(key, value)
}

func (s *scan) emitOwn(e *write, key []byte, base uint64) (full bool) {
	w := &s.t.buf.writes
	if e.kind == writeAtomic {
		return s.emit(key, kv.EncodeInteger(w.evaluate(e, base)))
	}
	return s.emit(key, w.value(e))
}

func (s *scan) emit(key, value []byte) (full bool) {
	o := s.out
	o.data = append(o.data, key...)
	keyEnd := len(o.data)
	o.data = append(o.data, value...)
	o.pairs = append(o.pairs, pairEnds{keyEnd, len(o.data)})
	return len(o.pairs) >= s.opts.Limit || s.opts.MaxBytes > 0 && len(o.data) >= s.opts.MaxBytes
}

func (s *scan) ownStep() {
	if s.opts.Reverse {
		s.own--
	} else {
		s.own++
	}
}

func (s *scan) precedes(a, b []byte) bool {
	if s.opts.Reverse {
		a, b = b, a
	}
	return bytes.Compare(a, b) < 0
}

// beyond tells whether key lies outside a segment with this limit.
func (s *scan) beyond(key, limit []byte) bool {
	if s.opts.Reverse {
		return bytes.Compare(key, limit) < 0
	}
	return bytes.Compare(key, limit) >= 0
}

func (s *scan) seek(from, limit []byte) pebble.IterValidityState {
	if s.opts.Reverse {
		return s.iter.SeekLTWithLimit(from, limit)
	}
	return s.iter.SeekGEWithLimit(from, limit)
}

func (s *scan) step(limit []byte) pebble.IterValidityState {
	if s.opts.Reverse {
		return s.iter.PrevWithLimit(limit)
	}
	return s.iter.NextWithLimit(limit)
}

// steps returns how many entries, tombstones included, the iterator has seen.
func (s *scan) steps() int {
	stats := s.iter.Stats()
	if s.opts.Reverse {
		return stats.ReverseStepCount[pebble.InternalIterCall]
	}
	return stats.ForwardStepCount[pebble.InternalIterCall]
}

func (o *scratch) reset() {
	if cap(o.data) > maxKept {
		o.data = nil
	}
	o.data = o.data[:0]
	o.pairs = o.pairs[:0]
	clear(o.gaps)
	o.gaps = o.gaps[:0]
}

// copyOut returns the pairs in memory of their own. Small ones share blocks:
// an allocation for each would cost more than the rest of the scan, and one for
// all of them would let a single small pair keep them all from being freed.
func (o *scratch) copyOut() []kv.Pair {
	const blockSize = 16 << 10
	if len(o.pairs) == 0 {
		return nil
	}
	pairs := make([]kv.Pair, len(o.pairs))
	begin := 0
	for i := 0; i < len(o.pairs); {
		j := i + 1
		for j < len(o.pairs) && o.pairs[j].value-begin <= blockSize {
			j++
		}
		end := o.pairs[j-1].value
		block := make([]byte, end-begin)
		copy(block, o.data[begin:end])
		at := 0
		for ; i < j; i++ {
			k, v := o.pairs[i].key-begin, o.pairs[i].value-begin
			pairs[i] = kv.Pair{Key: given(block[at:k:k]), Value: block[k:v:v]}
			at = v
		}
		begin = end
	}
	return pairs
}
