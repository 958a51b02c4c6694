package disk

import (
	"context"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// file is a file with its content as the process sees it.
type file struct {
	fs.Inode
	disk    *Disk
	number  int
	mode    uint32
	bytes   []byte
	changed time.Time
	removed bool
}

var (
	_ fs.NodeOpener    = (*file)(nil)
	_ fs.NodeReader    = (*file)(nil)
	_ fs.NodeWriter    = (*file)(nil)
	_ fs.NodeFsyncer   = (*file)(nil)
	_ fs.NodeGetattrer = (*file)(nil)
	_ fs.NodeSetattrer = (*file)(nil)
)

func (f *file) path() string { return f.Path(nil) }

func (f *file) attributes(out *fuse.Attr) {
	out.Mode, out.Size, out.Nlink = fuse.S_IFREG|f.mode, uint64(len(f.bytes)), 1
	out.Blocks = (out.Size + sector - 1) / sector
	out.SetTimes(nil, &f.changed, &f.changed)
}

// syncing is a file that was opened so that each write is a sync, too.
type syncing struct{}

// handle is the handle of a file opened with these flags.
func handle(flags uint32) fs.FileHandle {
	if flags&syscall.O_DSYNC != 0 { // a part of O_SYNC
		return syncing{}
	}
	return nil
}

// Open implements fs.NodeOpener. The kernel caches nothing, so each read and write of the process arrives here.
func (f *file) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return handle(flags), fuse.FOPEN_DIRECT_IO, fs.OK
}

// Read implements fs.NodeReader.
func (f *file) Read(_ context.Context, _ fs.FileHandle, into []byte, offset int64) (fuse.ReadResult, syscall.Errno) {
	if errno := f.disk.admit(Read, f.path()); errno != fs.OK {
		return nil, errno
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	n := 0
	if offset < int64(len(f.bytes)) {
		n = copy(into, f.bytes[offset:])
	}
	return fuse.ReadResultData(into[:n]), fs.OK
}

// Write implements fs.NodeWriter.
func (f *file) Write(_ context.Context, opened fs.FileHandle, data []byte, offset int64) (uint32, syscall.Errno) {
	if errno := f.disk.admit(Write, f.path()); errno != fs.OK {
		return 0, errno
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	e := Event{Kind: Write, Path: f.path(), node: f.number, offset: offset, data: slices.Clone(data)}
	if longer := offset + int64(len(data)) - int64(len(f.bytes)); longer > 0 && f.disk.used+longer > f.disk.capacity {
		f.disk.failed++
		return 0, syscall.ENOSPC
	}
	f.change(e)
	if _, is := opened.(syncing); is {
		f.disk.note(Event{Kind: Sync, Path: f.path(), node: f.number})
	}
	return uint32(len(data)), fs.OK
}

// change applies a write or a truncation. The caller holds the disk's lock.
func (f *file) change(e Event) {
	f.disk.note(e)
	before := len(f.bytes)
	f.bytes, f.changed = e.applied(f.bytes, nil), time.Now()
	if !f.removed {
		f.disk.used += int64(len(f.bytes) - before)
	}
}

// remove takes the file's name away. The caller holds the disk's lock.
func (f *file) remove() {
	f.disk.used -= int64(len(f.bytes))
	f.removed = true
	delete(f.disk.content, f.number)
}

// Fsync implements fs.NodeFsyncer.
func (f *file) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	if errno := f.disk.admit(Sync, f.path()); errno != fs.OK {
		return errno
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.note(Event{Kind: Sync, Path: f.path(), node: f.number})
	return fs.OK
}

// Getattr implements fs.NodeGetattrer.
func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.attributes(&out.Attr)
	return fs.OK
}

// Setattr implements fs.NodeSetattrer.
func (f *file) Setattr(_ context.Context, _ fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	size, resizes := in.GetSize()
	if resizes {
		if errno := f.disk.admit(Truncate, f.path()); errno != fs.OK {
			return errno
		}
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if resizes {
		f.change(Event{Kind: Truncate, Path: f.path(), node: f.number, size: int64(size)})
	}
	if mode, is := in.GetMode(); is {
		f.mode = mode & 0o7777
	}
	f.attributes(&out.Attr)
	return fs.OK
}

// Lose makes the disk lose a random part of the data that was not synced, as it may after a failed write or sync.
// No process may use it meanwhile.
func (d *Disk) Lose(random *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	replay := NewReplay(d.events, Strict)
	for more := true; more; {
		_, more = replay.Next()
	}
	share := random.Float64()
	kept := func() bool { return random.Float64() < share }
	for number, f := range d.content {
		c := replay.files[number]
		if c == nil || len(c.loose) == 0 {
			continue
		}
		rest := slices.Clone(c.safe)
		for _, e := range c.loose {
			rest = e.applied(rest, kept)
		}
		f.change(Event{Kind: Truncate, Path: f.path(), node: number})
		f.change(Event{Kind: Write, Path: f.path(), node: number, data: rest})
		d.note(Event{Kind: Sync, Path: f.path(), node: number})
	}
}
