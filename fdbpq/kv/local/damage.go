package local

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
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
	return err
}
