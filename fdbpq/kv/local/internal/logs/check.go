package logs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Check is the result of reading the logs of a store before Pebble opens it.
type Check struct {
	logs      map[uint64]Extent // by number
	synced    map[uint64]int64  // bytes of each log that are known to have been synced
	manifests map[uint64]int64  // bytes of each manifest that are known to have been synced
	salvage   bool              // damaged logs are read as far as possible

	Lost    []*Damage // damage of such logs
	Reading string    // the log or manifest that Pebble read last
}

// checkLogs reads the logs of the store in dir, and checks manifests against the
// marks in them and that of the note. Logs are checked when Pebble opens them, since it ignores old ones.
func checkLogs(disk vfs.FS, dir string, noted Mark, salvage bool) (*Check, error) {
	s := &Check{salvage: salvage, logs: make(map[uint64]Extent), synced: make(map[uint64]int64), manifests: make(map[uint64]int64)}
	names, err := disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	newestManifest := uint64(0)
	for _, name := range names {
		name = disk.PathJoin(dir, name)
		number, isLog, isManifest := parseName(disk, dir, name)
		if isManifest {
			newestManifest = max(newestManifest, number)
		}
		if !isLog {
			continue
		}
		s.logs[number], err = scanFile(disk, name, true, number, func(c Chunk) {
			if !c.First {
				return
			}
			if m, ok := ParseMark(c.Content); ok {
				s.addMark(m)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	if noted.Log > 0 {
		s.addMark(noted)
		// Pebble removes a log when its rows are in tables: a newer manifest, or a newer log, proves that they are.
		if newestManifest <= noted.Manifest && !s.anyFrom(noted.Log) {
			name := disk.PathJoin(dir, fmt.Sprintf("%06d%s", noted.Log, logSuffix))
			s.Lost = append(s.Lost, &Damage{File: name, What: fmt.Sprintf("is missing, and %d bytes were synced", noted.LogSynced)})
		}
	}
	for number, synced := range s.manifests {
		name := disk.PathJoin(dir, fmt.Sprintf("%s%06d", ManifestPrefix, number))
		found, err := scanFile(disk, name, false, 0, func(Chunk) {})
		switch {
		case errors.Is(err, fs.ErrNotExist): // a later manifest has replaced it
		case err != nil:
			return nil, err
		case found.Sound < synced:
			return nil, unsound(name, found, synced)
		}
	}
	if !salvage && len(s.Lost) > 0 {
		return nil, s.Lost[0]
	}
	return s, nil
}

func scanFile(disk vfs.FS, name string, log bool, number uint64, use func(Chunk)) (Extent, error) {
	f, err := disk.Open(name)
	if err != nil {
		return Extent{}, err
	}
	found, err := Scan(f, log, uint32(number), use)
	return found, errors.Join(err, f.Close())
}

func unsound(name string, found Extent, synced int64) *Damage {
	return &Damage{File: name, What: fmt.Sprintf("cannot be read beyond byte %d, and %d bytes were synced", found.Sound, synced)}
}

// logDamage returns the damage of a log, nil if all synced bytes can be read.
func (s *Check) logDamage(name string, number uint64) *Damage {
	if found := s.logs[number]; found.Sound < s.synced[number] {
		return unsound(name, found, s.synced[number])
	}
	return nil
}

// addMark records how far, by the mark, each file was synced.
func (s *Check) addMark(m Mark) {
	s.synced[m.Log] = max(s.synced[m.Log], int64(m.LogSynced))
	s.manifests[m.Manifest] = max(s.manifests[m.Manifest], int64(m.ManifestSynced))
}

// anyFrom reports whether a log with this number, or a newer one, is there.
func (s *Check) anyFrom(number uint64) bool {
	for there := range s.logs {
		if there >= number {
			return true
		}
	}
	return false
}

// Damage: a file of the store does not have the content that was written to it. It wraps kv.ErrDamaged.
type Damage struct {
	File string // its name
	What string // the fault

	// Begin and End are the first and the last key of the file, if they are known.
	// The damage may concern any key between them.
	Begin, End []byte
}

func (d *Damage) Error() string { return fmt.Sprintf("%v: %s: %s", kv.ErrDamaged, d.File, d.What) }

// Unwrap lets errors.Is find kv.ErrDamaged.
func (d *Damage) Unwrap() error { return kv.ErrDamaged }

// newLogWriter calls record.NewLogWriter, whose number type is internal to Pebble.
func newLogWriter[Number ~uint64](construct func(io.Writer, Number, record.LogWriterConfig) *record.LogWriter, w io.Writer, number uint64) *record.LogWriter {
	return construct(w, Number(number), record.LogWriterConfig{
		WriteWALSyncOffsets: func() bool { return false },
		QueueSemChan:        make(chan struct{}, 1),
	})
}

// readableLog returns a copy of a log with all readable records, those after damage included.
func readableLog(disk vfs.FS, name string, number uint64) (vfs.File, error) {
	memory := vfs.NewMem()
	f, err := memory.Create("rest", vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	w := newLogWriter(record.NewLogWriter, f, number)
	var whole []byte
	var writing error
	open, end := false, int64(0)
	_, err = scanFile(disk, name, true, number, func(c Chunk) {
		next := c.At-end < chunkHeadNew // only padding lies between the two
		if open = c.First || open && next; !open {
			return
		}
		if c.First {
			whole = whole[:0]
		}
		whole, end = append(whole, c.Content...), c.End
		if c.Last {
			open = false
			if _, err := w.WriteRecord(whole); err != nil {
				writing = err
			}
		}
	})
	if err := errors.Join(err, writing, w.Close()); err != nil {
		return nil, err
	}
	return memory.Open("rest")
}
