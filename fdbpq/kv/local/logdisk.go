package local

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logDisk is the file system of a store. It records how far the newest log and manifest are synced, and changes how
// logs are written and read.
//
// It writes logs over zeros, or over an old log. A sync within a file takes about two thirds of the time of a sync
// after the file has grown, since the file system need not write a new size and new blocks.
//
// Readers of a log that is being written, such as backups, read only the part that was written when they opened it.
// Otherwise they could read remains of an old log and then new content over and behind them. The store would take
// such remains for a hole in its synced content.
//
// If lazy is set, syncs of a log that is being written do nothing: Pebble then only hands its buffers to the
// operating system. A log is synced when it is closed, before the next one begins. So a crash of the machine loses
// only the end of the last log.
//
// It reports a log that cannot be written, synced or closed before Pebble learns of it. When Pebble then begins a
// new log, it panics while its own mutex is unlocked, and nothing can recover from that.
type logDisk struct {
	vfs.FS
	dir      string
	lazy     bool
	failed   func(error)
	open     sync.Map // of *logFile, by name: the logs that are being written
	log      atomic.Pointer[syncedFile]
	manifest atomic.Pointer[syncedFile]
	logCheck atomic.Pointer[logCheck] // while the store is being opened
	note     syncNote
}

func newLogDisk(disk vfs.FS, dir string, lazy bool) *logDisk {
	return &logDisk{FS: disk, dir: disk.PathDir(disk.PathJoin(dir, "a file")), lazy: lazy, failed: func(error) {}}
}

// Unwrap implements vfs.FS.
func (d *logDisk) Unwrap() vfs.FS { return d.FS }

const (
	logSuffix      = ".log"
	manifestPrefix = "MANIFEST-"
	markerPrefix   = "marker."
)

// parse reports whether a file is a log or a manifest of the store, and its number. A copy
// of a log is neither.
func (d *logDisk) parse(name string) (number uint64, isLog, isManifest bool) {
	if d.PathDir(name) != d.dir {
		return 0, false, false
	}
	base := d.PathBase(name)
	numeral, isLog := strings.CutSuffix(base, logSuffix)
	if !isLog {
		numeral, isManifest = strings.CutPrefix(base, manifestPrefix)
	}
	number, err := strconv.ParseUint(numeral, 10, 64)
	return number, isLog && err == nil, isManifest && err == nil
}

// syncMark returns how far the newest log and manifest are synced.
func (d *logDisk) syncMark() (m syncMark) {
	if f := d.log.Load(); f != nil {
		m.log, m.logSynced = f.number, uint64(f.synced.Load())
	}
	if f := d.manifest.Load(); f != nil {
		m.manifest, m.manifestSynced = f.number, uint64(f.synced.Load())
	}
	return m
}

// Create implements vfs.FS.
func (d *logDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	switch number, isLog, isManifest := d.parse(name); {
	case isLog:
		return d.newLog(f, name, number, 0), nil
	case isManifest:
		// Pebble makes the marker that names this manifest next.
		if err := d.keepName(f); err != nil {
			return nil, err
		}
		manifest := &syncedFile{File: f, number: number}
		d.manifest.Store(manifest)
		return manifest, nil
	case strings.HasPrefix(d.PathBase(name), markerPrefix):
		// Pebble removes the earlier marker next.
		if err := d.keepName(f); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// keepName makes the name of a new file durable before Pebble changes another name that
// depends on it. Of two changes without a sync a disk may keep only the second.
func (d *logDisk) keepName(f vfs.File) error {
	if err := syncDirectory(d.FS, d.dir); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// ReuseForWrite implements vfs.FS.
func (d *logDisk) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(from, to, category)
	number, isLog, _ := d.parse(to)
	if err != nil || !isLog {
		return f, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d.newLog(f, to, number, info.Size()), nil
}

func (d *logDisk) newLog(f vfs.File, name string, number uint64, size int64) *logFile {
	log := &logFile{syncedFile: syncedFile{File: f, number: number}, size: size, lazy: d.lazy, failed: d.failed}
	log.closed = func() { d.open.CompareAndDelete(name, log) }
	d.open.Store(name, log)
	d.log.Store(&log.syncedFile)
	return log
}

// Open implements vfs.FS.
func (d *logDisk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	number, isLog, isManifest := d.parse(name)
	if found := d.logCheck.Load(); found != nil && (isLog || isManifest) {
		found.reading = name
		switch damage := found.logDamage(name, number); {
		case !isLog:
		case found.salvage:
			if damage != nil {
				found.lost = append(found.lost, damage)
			}
			return d.readableLog(name, number)
		case damage != nil:
			return nil, damage
		}
	}
	log, writing := d.open.Load(name)
	f, err := d.FS.Open(name, opts...)
	if err != nil || !writing {
		return f, err
	}
	return &logReader{f, io.LimitedReader{R: f, N: log.(*logFile).end.Load()}}, nil
}
