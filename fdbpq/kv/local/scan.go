package local

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// scan is one range read. It jumps over gaps and merges the store's pairs with the
// transaction's own writes. "Before" and "after" mean the direction of the scan, which
// may be backward.
type scan struct {
	t       *tx
	iter    *pebble.Iterator
	begin   []byte
	end     []byte
	opts    kv.RangeOptions
	out     *scratch
	own     int // next own write, an index in writeSet.sorted
	ownStop int // the index at which own writes end

	lookAfter int  // steps over tombstones after which to look for a gap
	keysOnly  bool // of the store, without own writes
}

// scratch is the memory of a scan.
type scratch struct {
	data    []byte // keys and values found
	pairs   []pairEnds
	stretch stretch
	gaps    []keyRange // to be recorded
	steps   stepLimit
}

type pairEnds struct{ key, value int } // offsets in data

// stretch is the part of the store that the scan has passed since it found the last key.
type stretch struct {
	edge    []byte // where it begins
	afterIt bool   // edge is a key that was found
	steps   int    // over tombstones
	jumps   int    // over gaps
	stops   int    // to look for a gap among tombstones
}

// scan returns the pairs of a range, and whether a bound of opts cut it short.
func (t *tx) scan(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, bool, error) {
	s := scan{t: t, begin: begin, end: end, opts: opts}
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
	return s.out.copyOut(), cut, nil
}

// storeKeys calls use for all keys of the store in a range, unless there are more than
// limit.
func (t *tx) storeKeys(r keyRange, limit int, use func(key []byte)) (all bool, err error) {
	s := scan{t: t, begin: r.begin, end: r.end, opts: kv.RangeOptions{Limit: limit + 1}, keysOnly: true}
	cut, err := s.run()
	if err != nil || cut {
		return false, err
	}
	begin := 0
	for _, p := range s.out.pairs {
		use(s.out.data[begin:p.key])
		begin = p.value
	}
	return true, nil
}

// run reads the range and records the gaps that it found.
func (s *scan) run() (cut bool, err error) {
	s.iter, err = s.t.iterator()
	if err != nil {
		return false, err
	}
	s.out = &s.t.buf.scratch
	s.out.reset()
	s.out.steps.reverse = s.opts.Reverse
	s.lookAfter = s.t.db.gaps.limits.lookAfter
	cut, err = s.read()
	if s.t.db.newest.Load().version-s.t.pinned.version <= maxLag {
		for _, r := range s.out.gaps {
			s.t.db.gaps.record(r, s.t.pinned)
		}
	}
	return cut, err
}

// maxLag bounds the commits after the state that a scan reads. If there are more, the gaps of the scan are not
// recorded, since record compares them with each of these commits while other commits wait.
const maxLag = 1000

func (s *scan) read() (cut bool, err error) {
	pos, last := s.begin, s.end
	if s.opts.Reverse {
		pos, last = last, pos
	}
	s.startStretch(pos, false)
	for {
		if r, ok := s.cleared(pos); ok {
			// Do not read what the transaction cleared, and record no gaps in it.
			s.endStretch(pos, false)
			pos = r
			s.startStretch(pos, false)
			continue
		}
		from, limit := s.jump(pos)
		if !s.precedes(from, last) {
			s.endStretch(last, false)
			return s.ownBefore(nil), nil
		}
		if r := s.nextCleared(from); r != nil && s.precedes(r, limit) {
			limit = r
		}
		pos, cut, err = s.walk(from, limit)
		if cut || err != nil {
			return cut, err
		}
	}
}

// cleared returns where to continue if pos is in a range that the transaction cleared.
func (s *scan) cleared(pos []byte) ([]byte, bool) {
	ranges := s.clearedRanges()
	if s.opts.Reverse {
		if i := ranges.searchEnd(pos); i >= 0 && bytes.Compare(ranges[i].end, pos) >= 0 {
			return ranges[i].begin, true
		}
	} else if i := ranges.search(pos); i < len(ranges) && bytes.Compare(ranges[i].begin, pos) <= 0 {
		return ranges[i].end, true
	}
	return nil, false
}

// nextCleared returns where the next such range after pos begins, or nil.
func (s *scan) nextCleared(pos []byte) []byte {
	ranges := s.clearedRanges()
	if s.opts.Reverse {
		if i := ranges.searchEnd(pos); i >= 0 {
			return ranges[i].end
		}
	} else if i := ranges.search(pos); i < len(ranges) {
		return ranges[i].begin
	}
	return nil
}

func (s *scan) clearedRanges() rangeSet {
	if s.keysOnly {
		return nil
	}
	return s.t.buf.writes.cleared
}

// jump returns where to look for the next keys: from there, and up to limit.
func (s *scan) jump(pos []byte) (from, limit []byte) {
	if s.opts.Reverse {
		from, limit = s.jumpBackward(pos)
	} else {
		from, limit = s.jumpForward(pos)
	}
	if !bytes.Equal(from, pos) {
		s.out.stretch.jumps++
	}
	return from, limit
}

func (s *scan) jumpForward(pos []byte) (from, limit []byte) {
	from, limit, asOf := s.t.db.gaps.forward(pos, s.end)
	if asOf <= s.t.pinned.version {
		return from, limit
	}
	// The range is empty at asOf. In this transaction's older state it may have keys
	// where a commit in between made a change.
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

// walk reads up to limit, or to a gap, and returns where to continue.
func (s *scan) walk(from, limit []byte) (next []byte, cut bool, err error) {
	stretch, steps := &s.out.stretch, &s.out.steps
	steps.allow(limit, s.lookAfter<<stretch.stops)
	for state := s.seek(from); ; state = s.step() {
		if state == pebble.IterAtLimit && steps.stopped {
			stretch.steps += steps.steps
			// The gaps here may all be small, so stop less and less often.
			stretch.stops++
			pos := steps.resumeAt()
			if from, _ := s.jump(pos); !bytes.Equal(from, pos) {
				return from, false, nil
			}
			steps.allow(limit, s.lookAfter<<stretch.stops)
			continue
		}
		if state != pebble.IterValid {
			break
		}
		key := s.iter.Key()
		if s.beyond(key, limit) {
			break
		}
		stretch.steps += steps.steps - 1
		s.adaptLookAfter()
		s.endStretch(key, true)
		s.startStretch(key, true)
		if s.ownBefore(key) {
			return nil, true, nil
		}
		var value []byte
		if !s.keysOnly {
			if value, err = s.iter.ValueAndErr(); err != nil {
				return nil, false, s.t.db.damages.readError(err)
			}
		}
		if s.emitBase(key, value) {
			return nil, true, nil
		}
		steps.allow(limit, s.lookAfter)
	}
	if err := s.iter.Error(); err != nil {
		return nil, false, s.t.db.damages.readError(err)
	}
	stretch.steps += steps.steps
	return limit, false, nil
}

func (s *scan) startStretch(edge []byte, afterIt bool) {
	v := &s.out.stretch
	v.edge = append(v.edge[:0], edge...)
	v.afterIt = afterIt
	v.steps, v.jumps, v.stops = 0, 0, 0
}

// adaptLookAfter adjusts lookAfter at the end of a stretch. If a single stop led to a
// key, the scan should have stopped earlier.
func (s *scan) adaptLookAfter() {
	switch stops := s.out.stretch.stops; {
	case stops == 1:
		s.lookAfter = max(s.lookAfter/2, s.t.db.gaps.limits.lookAfter/8, 1)
	case stops > 1:
		s.lookAfter = s.t.db.gaps.limits.lookAfter
	}
}

// endStretch ends a stretch at a key or at a bound. If crossing it took many steps or
// several jumps, it becomes a gap.
func (s *scan) endStretch(to []byte, isKey bool) {
	v := &s.out.stretch
	if v.steps < s.t.db.gaps.limits.steps && v.jumps < 2 {
		return
	}
	var r keyRange
	switch {
	case s.opts.Reverse && isKey:
		r = keyRange{keyAfter(to), bytes.Clone(v.edge)}
	case s.opts.Reverse:
		r = keyRange{bytes.Clone(to), bytes.Clone(v.edge)}
	case v.afterIt:
		r = keyRange{keyAfter(v.edge), bytes.Clone(to)}
	default:
		r = keyRange{bytes.Clone(v.edge), bytes.Clone(to)}
	}
	s.out.gaps = append(s.out.gaps, r)
}

// ownBefore emits the own writes before key, all of them if key is nil.
func (s *scan) ownBefore(key []byte) (full bool) {
	w := &s.t.buf.writes
	for s.own != s.ownStop {
		i := w.sorted[s.own]
		own := w.keys.key(i)
		if key != nil && !s.precedes(own, key) {
			return false
		}
		s.ownStep()
		if e := &w.entries[i]; e.kind != kindClear && s.emitOwn(e, own, 0) {
			return true
		}
	}
	return false
}

// emitBase emits a pair of the store, merged with the own write to its key.
func (s *scan) emitBase(key, value []byte) (full bool) {
	if s.own != s.ownStop {
		w := &s.t.buf.writes
		if i := w.sorted[s.own]; bytes.Equal(w.keys.key(i), key) {
			s.ownStep()
			e := &w.entries[i]
			if e.kind == kindClear {
				return false
			}
			return s.emitOwn(e, key, kv.DecodeInteger(value))
		}
	}
	return s.emit(key, value)
}

func (s *scan) emitOwn(e *write, key []byte, base uint64) (full bool) {
	w := &s.t.buf.writes
	if e.kind == kindAtomic {
		return s.emit(key, kv.EncodeInteger(w.evaluate(e, base)))
	}
	return s.emit(key, w.value(e))
}

func (s *scan) emit(key, value []byte) (full bool) {
	o := s.out
	o.data = extend(o.data, key...)
	keyEnd := len(o.data)
	o.data = extend(o.data, value...)
	o.pairs = extend(o.pairs, pairEnds{keyEnd, len(o.data)})
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

// beyond reports whether key lies outside a segment with this limit.
func (s *scan) beyond(key, limit []byte) bool {
	if s.opts.Reverse {
		return bytes.Compare(key, limit) < 0
	}
	return bytes.Compare(key, limit) >= 0
}

func (s *scan) seek(from []byte) pebble.IterValidityState {
	if s.opts.Reverse {
		return s.iter.SeekLTWithLimit(from, s.out.steps.limit)
	}
	return s.iter.SeekGEWithLimit(from, s.out.steps.limit)
}

func (s *scan) step() pebble.IterValidityState {
	if s.opts.Reverse {
		return s.iter.PrevWithLimit(s.out.steps.limit)
	}
	return s.iter.NextWithLimit(s.out.steps.limit)
}

func (o *scratch) reset() {
	if cap(o.data) > maxKept || cap(o.pairs) > 8*maxKeptKeys {
		o.data, o.pairs = nil, nil
	}
	o.data = o.data[:0]
	o.pairs = o.pairs[:0]
	clear(o.gaps)
	o.gaps = o.gaps[:0]
}

// copyOut returns copies of the pairs. Small pairs share blocks: an allocation for each
// pair costs more than the rest of the scan, and with one allocation for all, a single
// pair would keep all of them in memory.
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
			pairs[i] = kv.Pair{Key: decodeKey(block[at:k:k]), Value: block[k:v:v]}
			at = v
		}
		begin = end
	}
	return pairs
}
