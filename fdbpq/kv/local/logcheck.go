package local

import (
	"errors"
	"fmt"
	"io/fs"
)

// logCheck is the result of reading the logs of a store before Pebble opens it.
type logCheck struct {
	logs      map[uint64]scanResult // by number
	synced    map[uint64]int64      // bytes of each log that are known to have been synced
	manifests map[uint64]int64      // bytes of each manifest that are known to have been synced
	missing   *Damage               // the newest log, if it is not there
	salvage   bool                  // damaged logs are read as far as possible
	lost      []*Damage             // damage of such logs
	reading   string                // the log or manifest that Pebble read last
}

// checkLogs reads the logs in the directory, and checks manifests against the sync
// marks in them. Logs are checked when Pebble opens them, since it ignores old ones.
func (d *logDisk) checkLogs() (*logCheck, error) {
	s := &logCheck{logs: make(map[uint64]scanResult), synced: make(map[uint64]int64), manifests: make(map[uint64]int64)}
	names, err := d.List(d.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	newestManifest := uint64(0)
	for _, name := range names {
		name = d.PathJoin(d.dir, name)
		number, isLog, isManifest := d.parse(name)
		if isManifest {
			newestManifest = max(newestManifest, number)
		}
		if !isLog {
			continue
		}
		s.logs[number], err = d.scanFile(name, true, number, func(c chunk) {
			if !c.first {
				return
			}
			if m, ok := parseSyncMark(c.content); ok {
				s.synced[m.log] = max(s.synced[m.log], int64(m.logSynced))
				s.manifests[m.manifest] = max(s.manifests[m.manifest], int64(m.manifestSynced))
			}
		})
		if err != nil {
			return nil, err
		}
	}
	note, err := d.note.read(d.FS, d.dir)
	if err != nil {
		return nil, err
	}
	if note.log > 0 {
		s.addNote(note)
		// Pebble removes a log when its rows are in tables: a newer manifest, or a newer log, proves that they are.
		if newestManifest <= note.manifest && !s.anyFrom(note.log) {
			name := d.PathJoin(d.dir, fmt.Sprintf("%06d%s", note.log, logSuffix))
			s.missing = &Damage{File: name, What: fmt.Sprintf("is missing, and %d bytes were synced", note.logSynced)}
		}
	}
	for number, synced := range s.manifests {
		name := d.PathJoin(d.dir, fmt.Sprintf("%s%06d", manifestPrefix, number))
		found, err := d.scanFile(name, false, 0, func(chunk) {})
		switch {
		case errors.Is(err, fs.ErrNotExist): // a later manifest has replaced it
		case err != nil:
			return nil, err
		case found.sound < synced:
			return nil, unsound(name, found, synced)
		}
	}
	return s, nil
}

func (d *logDisk) scanFile(name string, log bool, number uint64, use func(chunk)) (scanResult, error) {
	f, err := d.FS.Open(name)
	if err != nil {
		return scanResult{}, err
	}
	found, err := scanChunks(f, log, uint32(number), use)
	return found, errors.Join(err, f.Close())
}

func unsound(name string, found scanResult, synced int64) *Damage {
	return &Damage{File: name, What: fmt.Sprintf("cannot be read beyond byte %d, and %d bytes were synced", found.sound, synced)}
}

// logDamage returns the damage of a log, nil if all synced bytes can be read.
func (s *logCheck) logDamage(name string, number uint64) *Damage {
	if found := s.logs[number]; found.sound < s.synced[number] {
		return unsound(name, found, s.synced[number])
	}
	return nil
}
