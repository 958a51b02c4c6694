package logs

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
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

// syncedFile is a file that is written sequentially and knows how much of it is synced.
type syncedFile struct {
	vfs.File
	number      uint64
	end, synced atomic.Int64
}

// Write implements io.Writer.
func (f *syncedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.end.Add(int64(n))
	return n, err
}

// Sync implements vfs.File.
func (f *syncedFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements vfs.File.
func (f *syncedFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *syncedFile) sync(sync func() error) error {
	end := f.end.Load()
	if err := sync(); err != nil {
		return err
	}
	f.synced.Store(end)
	return nil
}

// If the end of a log is lost, its sync marks are lost with it: a log that was cut short looks like a log that was
// never longer. So a file beside the logs has the newest mark too. It is written at the end and, while the store is
// in use, every second. Its two slots are written in turn, each in a sector of its own: a write that is cut off
// leaves the other slot.

// NoteName is the name of that file.
const NoteName = "SYNCED"

const (
	noteSlot = 512
	noteHead = 4 + 8 // checksum, number of the write
)

// note is the file with the newest sync mark. The first write opens it.
type note struct {
	mu     sync.Mutex
	file   vfs.File
	number uint64 // of the last write
}

func (n *note) write(disk vfs.FS, dir string, m Mark) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file == nil {
		f, err := disk.OpenReadWrite(disk.PathJoin(dir, NoteName), vfs.WriteCategoryUnspecified)
		if err != nil {
			return err
		}
		if err := durable.SyncDirectory(disk, dir); err != nil {
			return errors.Join(err, f.Close())
		}
		n.file = f
	}
	n.number++
	slot := binary.LittleEndian.AppendUint64(make([]byte, 4, noteSlot), n.number)
	slot = m.Append(slot)[:noteSlot]
	binary.LittleEndian.PutUint32(slot, crc32.Checksum(slot[4:], castagnoli))
	if _, err := n.file.WriteAt(slot, int64(n.number%2)*noteSlot); err != nil {
		return err
	}
	return n.file.SyncData()
}

// read returns the mark that was written last; none is the zero value.
func (n *note) read(disk vfs.FS, dir string) (newest Mark, err error) {
	content, err := durable.Read(disk, disk.PathJoin(dir, NoteName))
	if err != nil {
		return Mark{}, err
	}
	for ; len(content) >= noteSlot; content = content[noteSlot:] {
		slot := content[:noteSlot]
		number := binary.LittleEndian.Uint64(slot[4:])
		m, ok := readMark(slot[noteHead:])
		if ok && number > n.number && binary.LittleEndian.Uint32(slot) == crc32.Checksum(slot[4:], castagnoli) {
			newest, n.number = m, number
		}
	}
	return newest, nil
}

// ReadNote returns the mark that was noted last; none is the zero value.
func ReadNote(disk vfs.FS, dir string) (Mark, error) { return new(note).read(disk, dir) }

func (n *note) close() error {
	if n.file == nil {
		return nil
	}
	return n.file.Close()
}
