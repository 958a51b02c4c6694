package logs

import (
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/durable"
)

// Disk is the file system of a store. It records how far the newest log and manifest are synced, and changes how
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
type Disk struct {
	vfs.FS
	dir      string
	lazy     bool
	failed   func(error)
	open     sync.Map // of *file, by name: the logs that are being written
	log      atomic.Pointer[syncedFile]
	manifest atomic.Pointer[syncedFile]
	check    atomic.Pointer[Check] // while the store is being opened
	note     note
}

// NewDisk returns the file system of the store in dir. A log that cannot be written, synced or closed calls failed.
func NewDisk(disk vfs.FS, dir string, lazy bool, failed func(error)) *Disk {
	return &Disk{FS: disk, dir: disk.PathDir(disk.PathJoin(dir, "a file")), lazy: lazy, failed: failed}
}

// Unwrap implements vfs.FS.
func (d *Disk) Unwrap() vfs.FS { return d.FS }

// Synced returns how far the newest log and manifest are synced.
func (d *Disk) Synced() (m Mark) {
	if f := d.log.Load(); f != nil {
		m.Log, m.LogSynced = f.number, uint64(f.synced.Load())
	}
	if f := d.manifest.Load(); f != nil {
		m.Manifest, m.ManifestSynced = f.number, uint64(f.synced.Load())
	}
	return m
}

// WriteNote notes beside the logs how far log and manifest are synced.
func (d *Disk) WriteNote() error { return d.note.write(d.FS, d.dir, d.Synced()) }

// CloseNote closes the file of the note.
func (d *Disk) CloseNote() error { return d.note.close() }

// Check reads the logs, and checks manifests, before Pebble opens the store. A check for a salvage takes a missing log for
// a lost one; for others it is an error.
func (d *Disk) Check(salvage bool) (*Check, error) {
	noted, err := d.note.read(d.FS, d.dir)
	if err != nil {
		return nil, err
	}
	return checkLogs(d.FS, d.dir, noted, salvage)
}

// OpenAs opens logs and manifests as found says, until the caller calls the function that it returns.
func (d *Disk) OpenAs(found *Check) (opened func()) {
	d.check.Store(found)
	return func() { d.check.Store(nil) }
}

// Create implements vfs.FS.
func (d *Disk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	if err != nil {
		return nil, err
	}
	switch number, isLog, isManifest := parseName(d.FS, d.dir, name); {
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
	case strings.HasPrefix(d.PathBase(name), MarkerPrefix):
		// Pebble removes the earlier marker next.
		if err := d.keepName(f); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// keepName makes the name of a new file durable before Pebble changes another name that
// depends on it. Of two changes without a sync a disk may keep only the second.
func (d *Disk) keepName(f vfs.File) error {
	if err := durable.SyncDirectory(d.FS, d.dir); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// ReuseForWrite implements vfs.FS.
func (d *Disk) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(from, to, category)
	number, isLog, _ := parseName(d.FS, d.dir, to)
	if err != nil || !isLog {
		return f, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d.newLog(f, to, number, info.Size()), nil
}

func (d *Disk) newLog(f vfs.File, name string, number uint64, size int64) *file {
	log := &file{syncedFile: syncedFile{File: f, number: number}, size: size, lazy: d.lazy, failed: d.failed}
	log.closed = func() { d.open.CompareAndDelete(name, log) }
	d.open.Store(name, log)
	d.log.Store(&log.syncedFile)
	return log
}

// Open implements vfs.FS.
func (d *Disk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	number, isLog, isManifest := parseName(d.FS, d.dir, name)
	if found := d.check.Load(); found != nil && (isLog || isManifest) {
		found.Reading = name
		switch damage := found.logDamage(name, number); {
		case !isLog:
		case found.salvage:
			if damage != nil {
				found.Lost = append(found.Lost, damage)
			}
			return readableLog(d.FS, name, number)
		case damage != nil:
			return nil, damage
		}
	}
	log, writing := d.open.Load(name)
	f, err := d.FS.Open(name, opts...)
	if err != nil || !writing {
		return f, err
	}
	return &reader{f, io.LimitedReader{R: f, N: log.(*file).end.Load()}}, nil
}
