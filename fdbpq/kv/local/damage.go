package local

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"math/big"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
)

// Damage: a file of the store does not have the content that was written to it: the name of the File, and What the fault is.
// Begin and End are the first and the last key of the file, if they are known; the damage may concern any key between
// them. It wraps kv.ErrDamaged.
type Damage = logs.Damage

// damages is the damage found so far, with one entry for each file.
type damages struct {
	log     *slog.Logger
	mu      sync.Mutex
	byFile  map[string]*Damage
	skipped atomic.Uint64 // times that a read of a salvaged store skipped damage
}

// add returns false when damage of the file was known before.
func (s *damages) add(d *Damage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byFile[d.File] != nil {
		return false
	}
	if s.byFile == nil {
		s.byFile = make(map[string]*Damage)
	}
	s.byFile[d.File] = d
	return true
}

// all returns the damage in the order of the files' names.
func (s *damages) all() []Damage {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Damage
	for _, d := range s.byFile {
		all = append(all, *d)
	}
	slices.SortFunc(all, func(a, b Damage) int { return cmp.Compare(a.File, b.File) })
	return all
}

// note records damage and logs it once for each file, since reads find it again
// and again.
func (s *damages) note(d *Damage) error {
	if s.add(d) {
		s.log.Error("kv/local: the store is damaged", "file", d.File, "err", d.What)
	}
	return d
}

// noteCorruption records damage that Pebble reports.
func (s *damages) noteCorruption(info pebble.DataCorruptionInfo) error {
	d := &Damage{File: info.Path, What: info.Details.Error()}
	if begin, end := info.Bounds.Start, info.Bounds.End.Key; len(begin) > 0 && len(end) > 0 {
		d.Begin, d.End = bytes.Clone(decodeKey(begin)), bytes.Clone(decodeKey(end))
	}
	return s.note(d)
}

// skip counts damage that a read skips. It returns any other error.
func (s *damages) skip(err error) error {
	if !errors.Is(err, kv.ErrDamaged) {
		return err
	}
	s.skipped.Add(1)
	return nil
}

// readError turns an error of a read into the transaction's error. A read error of the
// disk counts as damage, like a wrong checksum.
func (s *damages) readError(err error) error {
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		return s.noteCorruption(*info)
	}
	var path *fs.PathError
	switch found := errors.As(err, &path); {
	case found && errors.Is(err, syscall.EIO):
		return s.note(&Damage{File: path.Path, What: err.Error()})
	case pebble.IsCorruptionError(err):
		return s.note(&Damage{File: "one of the store's files", What: err.Error()})
	}
	return unavailable(err)
}

// openError turns an error of opening the store into a Damage if damage caused it.
func (s *damages) openError(found *logs.Check, err error) error {
	var damage *Damage
	switch info := pebble.ExtractDataCorruptionInfo(err); {
	case err == nil || errors.As(err, &damage):
		return err
	case info != nil:
		return s.noteCorruption(*info)
	case pebble.IsCorruptionError(err):
		return &Damage{File: found.Reading, What: err.Error()}
	}
	if m := wrongTable.FindStringSubmatch(err.Error()); m != nil {
		return s.note(&Damage{File: cmp.Or(m[2], m[1]+".sst"), What: err.Error()})
	}
	return err
}

// wrongTable matches what Pebble says, without calling it corrupt, of a table that is cut off, or missing: it looks for all of
// them when it opens a store.
var wrongTable = regexp.MustCompile(`^L\d+: (\d+): (?:object size mismatch \(([^)]+)\)|.*(?:does not exist|not exist|no such file|unknown to the objstorage provider))`)

// errReadOnly: the store is open for reads alone.
var errReadOnly = errors.New("kv/local: the store is open read-only")

// rangeAroundDamage reads a range of a salvaged store, and continues after damage where
// it can read again.
func (t *tx) rangeAroundDamage(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	if opts.Reverse {
		return nil, errReadOnly
	}
	var pairs []kv.Pair
	size := 0
	for from := begin; from != nil; {
		err := t.eachPair(from, end, func(key, value []byte) (more bool) {
			from = keyAfter(key)
			pairs = append(pairs, kv.Pair{Key: bytes.Clone(decodeKey(key)), Value: append([]byte{}, value...)})
			size += len(key) + len(value)
			return len(pairs) < opts.Limit && (opts.MaxBytes == 0 || size < opts.MaxBytes)
		})
		if err == nil {
			break
		}
		if err := t.db.damages.skip(err); err != nil {
			return nil, err
		}
		from = t.readableAfter(from, end)
	}
	return pairs, nil
}

// eachPair calls use for the pairs of a range as long as it returns true.
func (t *tx) eachPair(begin, end []byte, use func(key, value []byte) (more bool)) error {
	iter, err := t.snap.NewIter(&pebble.IterOptions{UpperBound: end})
	if err != nil {
		return t.db.damages.readError(err)
	}
	for valid := iter.SeekGE(begin); valid; valid = iter.Next() {
		value, err := iter.ValueAndErr()
		if err != nil {
			_ = iter.Close() // the reads have reported its error
			return t.db.damages.readError(err)
		}
		if !use(iter.Key(), value) {
			break
		}
	}
	if err := iter.Close(); err != nil {
		return t.db.damages.readError(err)
	}
	return nil
}

// readableAfter returns a key after begin from which the range can be read again; nil if there is none. It first
// tries keys that share a long prefix with begin, since damage usually concerns one block.
func (t *tx) readableAfter(begin, end []byte) []byte {
	readable := func(key []byte) bool {
		return t.eachPair(key, end, func([]byte, []byte) bool { return false }) == nil
	}
	bad := begin
	for n := len(begin) - 1; n >= 0; n-- {
		good := prefixEnd(begin[:n+1])
		if good == nil || bytes.Compare(good, end) >= 0 {
			break
		}
		if !readable(good) {
			bad = good
			continue
		}
		for range bisections {
			middle := between(bad, good)
			if middle == nil {
				break
			}
			if readable(middle) {
				good = middle
			} else {
				bad = middle
			}
		}
		return good
	}
	return nil
}

// bisections bounds the search for the end of damage.
const bisections = 40

// prefixEnd returns the first key behind all that begin with prefix, nil if there
// is none.
func prefixEnd(prefix []byte) []byte {
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] != 0xff {
			after := bytes.Clone(prefix[:n])
			after[n-1]++
			return after
		}
	}
	return nil
}

// between returns a key halfway between two, nil if they are too close.
func between(low, high []byte) []byte {
	size := max(len(low), len(high)) + 1
	number := func(key []byte) *big.Int {
		padded := make([]byte, size)
		copy(padded, key)
		return new(big.Int).SetBytes(padded)
	}
	a, b := number(low), number(high)
	middle := a.Rsh(a.Add(a, b), 1).FillBytes(make([]byte, size))
	if bytes.Compare(middle, low) <= 0 || bytes.Compare(middle, high) >= 0 {
		return nil
	}
	return bytes.TrimRight(middle, "\x00")
}
